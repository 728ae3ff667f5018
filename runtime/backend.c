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
    uint32_t blocks = backend->device.num_sms * module->blocks_per_sm;
    if (module->num_clusters)
        blocks = module->num_clusters * module->cluster_blocks;
    if (most_blocks && most_blocks < blocks)
        blocks = most_blocks;
    const uint32_t clusters = blocks / module->cluster_blocks;
    return (clusters ? clusters : 1) * module->cluster_blocks;
}
