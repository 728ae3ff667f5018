/* SPDX-License-Identifier: MIT */
/* What both fakes do at the start of every call: count it, and fail it when the environment says.
 */
#ifndef FTJ_TESTS_FAKE_CALLS_H
#define FTJ_TESTS_FAKE_CALLS_H

/* Count a call of `symbol`. 0, or the result it must answer at once: `variable` in the environment
 * holds "symbol" or "symbol:result", several separated by commas. Any thread. */
int fake_call(const char *variable, const char *symbol);

/* Calls of `symbol` so far, failed ones included. */
unsigned int fake_calls_of(const char *symbol);

#endif
