/* SPDX-License-Identifier: MIT */
/*
 * Lists that are only ever pushed to, so that readers take no lock.
 *
 * Which kernel a problem gets depends on the problem, the device and the compiler, and the last two
 * are the context's: within it, equal problems have equal kernels. Two problems may share one.
 */
#include "runtime/kernel_map.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Descriptors that differ for ever (strides that follow an allocator) must not fill the memory. */
#define MAX_NODES 4096

struct ftj_kernel_node {
    struct ftj_kernel_node *next;
    uint64_t hash;
    struct ftj_problem problem; /* without padding */
    const struct ftj_kernel *kernel;
};

/* Clear the padding. Both lists name every member, by position: one that is missing does not
 * compile, and would otherwise be cleared as well. */
static void clear_array(ftj_kv_array *array)
{
    const ftj_kv_array all = {array->row_bytes, array->offset_bytes, array->page_stride_bytes,
                              array->head_stride_bytes, array->slot_stride_bytes};
    memset(array, 0, sizeof(*array));
    array->row_bytes = all.row_bytes;
    array->offset_bytes = all.offset_bytes;
    array->page_stride_bytes = all.page_stride_bytes;
    array->head_stride_bytes = all.head_stride_bytes;
    array->slot_stride_bytes = all.slot_stride_bytes;
}

static void clear_side(ftj_kv_side *side)
{
    ftj_kv_side all = {side->codes, side->row_scales, side->block_scales, side->row_bytes};
    clear_array(&all.codes);
    clear_array(&all.row_scales);
    clear_array(&all.block_scales);
    memset(side, 0, sizeof(*side));
    memcpy(&side->codes, &all.codes, sizeof(all.codes));
    memcpy(&side->row_scales, &all.row_scales, sizeof(all.row_scales));
    memcpy(&side->block_scales, &all.block_scales, sizeof(all.block_scales));
    side->row_bytes = all.row_bytes;
}

/* Bytes are compared, so that no field of a problem can be forgotten here. A problem is zeroed
 * before it is filled, but its layout is a copy of the caller's, padding included. */
static uint64_t normalise(struct ftj_problem *copy, const struct ftj_problem *problem)
{
    memcpy(copy, problem, sizeof(*copy));
    clear_side(&copy->kv.k);
    clear_side(&copy->kv.v);
    return XXH3_64bits(copy, sizeof(*copy));
}

const struct ftj_kernel *ftj_kernel_map_get(struct ftj_kernel_map *map,
                                            const struct ftj_problem *problem)
{
    struct ftj_problem wanted;
    const uint64_t hash = normalise(&wanted, problem);
    const struct ftj_kernel_node *node =
        atomic_load_explicit(&map->buckets[hash % FTJ_KERNEL_MAP_BUCKETS], memory_order_acquire);
    while (node && (node->hash != hash || memcmp(&node->problem, &wanted, sizeof(wanted)) != 0))
        node = node->next;
    return node ? node->kernel : NULL;
}

/* Threads that put one problem at once leave two nodes that say the same. */
void ftj_kernel_map_put(struct ftj_kernel_map *map, const struct ftj_problem *problem,
                        const struct ftj_kernel *kernel)
{
    if (atomic_fetch_add(&map->num_nodes, 1) >= MAX_NODES) {
        atomic_fetch_sub(&map->num_nodes, 1);
        return;
    }
    struct ftj_kernel_node *node = calloc(1, sizeof(*node));
    if (!node)
        return;
    node->hash = normalise(&node->problem, problem);
    node->kernel = kernel;
    _Atomic(struct ftj_kernel_node *) *bucket = &map->buckets[node->hash % FTJ_KERNEL_MAP_BUCKETS];
    node->next = atomic_load(bucket);
    while (!atomic_compare_exchange_weak(bucket, &node->next, node))
        continue;
}

void ftj_kernel_map_finish(struct ftj_kernel_map *map)
{
    for (size_t i = 0; i < FTJ_KERNEL_MAP_BUCKETS; i++) {
        struct ftj_kernel_node *next = NULL;
        for (struct ftj_kernel_node *node = atomic_load(&map->buckets[i]); node; node = next) {
            next = node->next;
            free(node);
        }
        atomic_store(&map->buckets[i], NULL);
    }
    atomic_store(&map->num_nodes, 0);
}
