/* SPDX-License-Identifier: MIT */
/* A generated source and the templates it includes, as one file that any compiler takes alone. */
#ifndef FTJ_CODEGEN_INLINE_SOURCE_H
#define FTJ_CODEGEN_INLINE_SOURCE_H

#include "base/bytes.h"
#include "codegen/template_set.h"

/* Append `source` to `unit` with each `#include "x"` replaced by the template x, the first time,
 * and dropped later: every template counts as `#pragma once`, so an #include must not depend on an
 * #if. #line marks say where lines come from; `name` is the source's own. `#include <x>` stays.
 * FTJ_E_NOT_FOUND: no such template; the sentence names it and the file that asks for it. */
FTJ_NODISCARD ftj_status ftj_inline_source(const struct ftj_template *templates,
                                           size_t num_templates, const char *name,
                                           const char *source, const struct ftj_log *log,
                                           struct ftj_text *unit);

#endif
