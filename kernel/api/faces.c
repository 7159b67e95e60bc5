// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The C faces' part in the module's life. */
#include "api.h"

int kofi_faces_init(void)
{
	return kapi_registry_init();
}

void kofi_faces_exit(void)
{
	kapi_registry_exit();
	kapi_objects_exit();
	kapi_infos_exit();
}
