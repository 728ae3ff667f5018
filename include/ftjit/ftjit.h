/* SPDX-License-Identifier: MIT */
/* ftjit: attention over a quantised, paged KV cache, with kernels specialised on this machine. */
#ifndef FTJIT_H
#define FTJIT_H

#include "ftjit/attention.h"
#include "ftjit/context.h"
#include "ftjit/kernel_event.h"
#include "ftjit/kv_layout.h"
#include "ftjit/memory.h"
#include "ftjit/status.h"
#include "ftjit/version.h"

#endif
