/* SPDX-License-Identifier: MIT */
/* Names and meanings of statuses, and the version: what the public headers promise as text. */
#include "ftjit/status.h"

#include "ftjit/context.h"
#include "ftjit/version.h"

#define TEXT_OF(number)                   #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *ftj_status_name(ftj_status status)
{
    switch (status) {
#define NAME_CASE(name, value, text)                                                               \
    case name:                                                                                     \
        return #name;
        FTJ_STATUS_MAP(NAME_CASE)
#undef NAME_CASE
    }
    return "FTJ_E_?";
}

const char *ftj_status_text(ftj_status status)
{
    switch (status) {
#define TEXT_CASE(name, value, text)                                                               \
    case name:                                                                                     \
        return text;
        FTJ_STATUS_MAP(TEXT_CASE)
#undef TEXT_CASE
    }
    return "not a status of this library";
}

const char *ftj_version(void)
{
    return VERSION_TEXT(FTJ_VERSION_MAJOR, FTJ_VERSION_MINOR, FTJ_VERSION_PATCH);
}
