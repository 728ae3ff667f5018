/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cache/store.h"

Test(store_options, that_cannot_be_are_refused)
{
    const struct {
        struct ftj_store_options options;
        const char *variable, *value, *named;
    } rows[] = {
        {{.match = "most"}, NULL, NULL, "compiler_match \"most\""},
        {{0}, "FTJIT_COMPILER_MATCH", "all", "FTJIT_COMPILER_MATCH \"all\""},
        {{0}, "FTJIT_CACHE_MAX_BYTES", "1T", "FTJIT_CACHE_MAX_BYTES \"1T\""},
        {{0}, "FTJIT_CACHE_MAX_BYTES", "0", "FTJIT_CACHE_MAX_BYTES \"0\""},
        {{0}, "FTJIT_CACHE_MAX_BYTES", "-1", "FTJIT_CACHE_MAX_BYTES \"-1\""},
        {{0}, "FTJIT_CACHE_MAX_BYTES", "99999999999G", "FTJIT_CACHE_MAX_BYTES"},
        {{.owners = "root"}, NULL, NULL, "cache_owners \"root\""},
        {{.owners = "1,"}, "FTJIT_BUNDLE_SHA256", "abc", "FTJIT_BUNDLE_SHA256 \"abc\""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct ftj_store *store = NULL;
        if (rows[i].variable)
            setenv(rows[i].variable, rows[i].value, 1);
        cr_assert_eq(ftj_store_create("/nowhere", false, NULL, &store), FTJ_OK);
        cr_expect_eq(ftj_store_configure(store, &rows[i].options), FTJ_E_INVALID, "row %zu", i);
        cr_expect_not_null(strstr(ftj_last_error(), rows[i].named), "%s", ftj_last_error());
        ftj_store_destroy(store);
        if (rows[i].variable)
            unsetenv(rows[i].variable);
    }
}

Test(store_options, a_disabled_store_opens_nothing)
{
    struct ftj_store *store = NULL;
    cr_assert_eq(ftj_store_create(NULL, true, NULL, &store), FTJ_OK);
    cr_expect_eq(ftj_store_configure(store, &(struct ftj_store_options){.path = "/nowhere/x.ftb"}),
                 FTJ_OK);
    ftj_store_destroy(store);
}
