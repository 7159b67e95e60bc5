// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Network namespaces, interfaces, routes. */
#include <linux/in.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/random.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include "shim.h"

struct net *kofi_shim_net_get(struct net *net)
{
	if (!net)
		/* A task that exits has none any more. */
		net = current->nsproxy ? current->nsproxy->net_ns : &init_net;
	return get_net(net);
}

void kofi_shim_net_put(struct net *net)
{
	put_net(net);
}

u32 kofi_shim_net_number(const struct net *net)
{
	return net->ns.inum;
}

static struct kofi_interface *add(struct kofi_interface *out, size_t max, size_t *count, const struct net_device *dev)
{
	struct kofi_interface *place = NULL;

	if (*count < max) {
		place = &out[*count];
		memset(place, 0, sizeof(*place));
		strscpy(place->name, dev->name, sizeof(place->name));
		place->loopback = !!(dev->flags & IFF_LOOPBACK);
	}
	++*count;
	return place;
}

size_t kofi_shim_interfaces(struct net *net, struct kofi_interface *out, size_t max)
{
	struct kofi_interface *place;
	struct net_device *dev;
	size_t count = 0;

	rcu_read_lock();
	for_each_netdev_rcu(net, dev) {
		struct in_device *in = __in_dev_get_rcu(dev);
		const struct in_ifaddr *ifa;

		if (!(dev->flags & IFF_UP))
			continue;
		if (in) {
			in_dev_for_each_ifa_rcu(ifa, in) {
				place = add(out, max, &count, dev);
				if (place) {
					struct sockaddr_in *addr = (void *)place->addr.bytes;

					place->addr.len = sizeof(*addr);
					addr->sin_family = AF_INET;
					addr->sin_addr.s_addr = ifa->ifa_local;
					place->prefix = ifa->ifa_prefixlen;
				}
			}
		}
#if IS_ENABLED(CONFIG_IPV6)
		{
			struct inet6_dev *in6 = __in6_dev_get(dev);
			const struct inet6_ifaddr *ifa6;

			if (!in6)
				continue;
			list_for_each_entry_rcu(ifa6, &in6->addr_list, if_list) {
				if (ifa6->flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED))
					continue;
				place = add(out, max, &count, dev);
				if (place) {
					struct sockaddr_in6 *addr = (void *)place->addr.bytes;

					place->addr.len = sizeof(*addr);
					addr->sin6_family = AF_INET6;
					addr->sin6_addr = ifa6->addr;
					if (ipv6_addr_type(&ifa6->addr) & IPV6_ADDR_LINKLOCAL)
						addr->sin6_scope_id = dev->ifindex;
					place->prefix = ifa6->prefix_len;
				}
			}
		}
#endif
	}
	rcu_read_unlock();
	return count;
}

int kofi_shim_route(struct net *net, const struct kofi_addr *addr, struct kofi_addr *local)
{
	struct kofi_addr copy = *addr;
	struct sockaddr_storage found = {};
	struct sockaddr_in *in = (void *)copy.bytes;
	struct socket *socket;
	int error = sock_create_kern(net, in->sin_family, SOCK_DGRAM, IPPROTO_UDP, &socket);

	if (error)
		return error;
	/* The port is at the same place in both kinds. No packet is sent by this, and port 0 cannot be connected to. */
	if (!in->sin_port)
		in->sin_port = htons(9);
	error = kernel_connect(socket, (void *)copy.bytes, copy.len, 0);
	if (!error) {
		error = kernel_getsockname(socket, (void *)&found);
		if (error >= 0) {
			local->len = min_t(int, error, sizeof(local->bytes));
			((struct sockaddr_in *)&found)->sin_port = 0;
			memcpy(local->bytes, &found, local->len);
			error = 0;
		}
	}
	sock_release(socket);
	return error;
}

u64 kofi_shim_random(void)
{
	return get_random_u64();
}
