/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the two files of shapes have in common. */
#ifndef KOFI_TESTS_SHAPES_H
#define KOFI_TESTS_SHAPES_H

struct shapes {
	void	*functions[3];
};

extern const struct shapes shapes_kfi, shapes_fi;

#endif
