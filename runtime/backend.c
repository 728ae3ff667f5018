/* SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

void ftj_backend_finish(struct ftj_backend *backend)
{
    if (backend->ops)
        backend->ops->finish(backend);
    *backend = (struct ftj_backend){0};
}
