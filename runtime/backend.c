/* SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

void ftj_backend_finish(struct ftj_backend *backend)
{
    if (backend->ops)
        backend->ops->finish(backend);
    *backend = (struct ftj_backend){0};
}

uint32_t ftj_backend_grid(const struct ftj_backend *backend, const struct ftj_module *module,
                          uint32_t most_blocks)
{
    const uint32_t blocks = backend->device.num_sms * module->blocks_per_sm;
    return most_blocks && most_blocks < blocks ? most_blocks : blocks;
}

struct ftj_grid ftj_backend_clusters(const struct ftj_backend *backend,
                                     const struct ftj_module *module, uint32_t most_blocks)
{
    const uint32_t size = module->cluster_blocks;
    const uint32_t room = ftj_backend_grid(backend, module, most_blocks) / size;
    const uint32_t clusters = room < module->num_clusters ? room : module->num_clusters;
    return (struct ftj_grid){.num_blocks = clusters * size, .cluster_blocks = size};
}
