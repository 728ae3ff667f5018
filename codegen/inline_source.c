/* SPDX-License-Identifier: MIT */
#include "codegen/inline_source.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct inliner {
    const struct ftj_template *templates;
    size_t num_templates;
    bool *is_in; /* [num_templates], owned */
    const struct ftj_log *log;
    struct ftj_text *unit;
};

struct line {
    const char *text;
    size_t size; /* with the newline */
};

static struct line next_line(const char *text, const char *end)
{
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    return (struct line){.text = text, .size = (size_t)((newline ? newline + 1 : end) - text)};
}

/* Past `word` and the blanks around it; NULL when the line does not go on with it. */
static const char *skip_word(const char *at, const char *end, const char *word)
{
    const size_t size = strlen(word);
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if ((size_t)(end - at) < size || memcmp(at, word, size))
        return NULL;
    at += size;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

/* The name in a line `#include "name"`, without its quotes; size 0 when it is no such line. */
static struct line included_name(const struct line *line)
{
    const char *end = line->text + line->size;
    const char *at = skip_word(line->text, end, "#");
    at = at ? skip_word(at, end, "include") : NULL;
    if (!at || at == end || *at != '"')
        return (struct line){0};
    const char *first = at + 1;
    const char *quote = memchr(first, '"', (size_t)(end - first));
    if (!quote)
        return (struct line){0};
    return (struct line){.text = first, .size = (size_t)(quote - first)};
}

static bool is_pragma_once(const struct line *line)
{
    const char *end = line->text + line->size;
    const char *at = skip_word(line->text, end, "#");
    at = at ? skip_word(at, end, "pragma") : NULL;
    return at && skip_word(at, end, "once");
}

static const struct ftj_template *find(const struct inliner *inliner, const struct line *name)
{
    for (size_t i = 0; i < inliner->num_templates; i++) {
        const struct ftj_template *candidate = &inliner->templates[i];
        if (strlen(candidate->name) == name->size &&
            !memcmp(candidate->name, name->text, name->size))
            return candidate;
    }
    return NULL;
}

/* Recursion is as deep as templates nest, and each is entered once. */
static ftj_status append(struct inliner *inliner, const char *name, const char *text, size_t size)
{
    const char *end = text + size;
    unsigned line_number = 1;
    ftj_text_printf(inliner->unit, "#line 1 \"%s\"\n", name);
    for (struct line line; text < end; text += line.size, line_number++) {
        line = next_line(text, end);
        const struct line included = included_name(&line);
        if (included.size == 0) {
            if (is_pragma_once(&line))
                ftj_text_append(inliner->unit, "\n", 1);
            else
                ftj_text_append(inliner->unit, line.text, line.size);
            continue;
        }
        const struct ftj_template *found = find(inliner, &included);
        if (!found) {
            return ftj_fail(inliner->log, FTJ_E_NOT_FOUND,
                            "%s, line %u, includes \"%.*s\", which is no template", name,
                            line_number, (int)included.size, included.text);
        }
        bool *is_in = &inliner->is_in[found - inliner->templates];
        if (!*is_in) {
            *is_in = true;
            const ftj_status status = append(inliner, found->name, found->text, found->size);
            if (status)
                return status;
        }
        ftj_text_printf(inliner->unit, "#line %u \"%s\"\n", line_number + 1, name);
    }
    if (size > 0 && end[-1] != '\n')
        ftj_text_append(inliner->unit, "\n", 1);
    return FTJ_OK;
}

ftj_status ftj_inline_source(const struct ftj_template *templates, size_t num_templates,
                             const char *name, const char *source, const struct ftj_log *log,
                             struct ftj_text *unit)
{
    struct inliner inliner = {
        .templates = templates,
        .num_templates = num_templates,
        .is_in = calloc(num_templates + 1, sizeof(*inliner.is_in)),
        .log = log,
        .unit = unit,
    };
    if (!inliner.is_in)
        return ftj_fail(log, FTJ_E_NO_MEMORY, "no memory for a source");

    ftj_status status = append(&inliner, name, source, strlen(source));
    if (status == FTJ_OK && unit->failed)
        status = ftj_fail(log, FTJ_E_NO_MEMORY, "no memory for a source");
    free(inliner.is_in);
    return status;
}
