/* SPDX-License-Identifier: MIT */
#include "fake_calls.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SYMBOLS    64
#define UNKNOWN_RESULT 999

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const char *symbol;
    unsigned int calls;
} counters[MAX_SYMBOLS];

static void count(const char *symbol)
{
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < MAX_SYMBOLS; i++) {
        if (counters[i].symbol && strcmp(counters[i].symbol, symbol) != 0)
            continue;
        counters[i].symbol = symbol;
        counters[i].calls++;
        break;
    }
    pthread_mutex_unlock(&mutex);
}

int fake_call(const char *variable, const char *symbol)
{
    count(symbol);
    const char *list = getenv(variable);
    const size_t length = strlen(symbol);
    while (list && *list) {
        const size_t item = strcspn(list, ",");
        if (item >= length && strncmp(list, symbol, length) == 0) {
            if (item == length)
                return UNKNOWN_RESULT;
            if (list[length] == ':')
                return atoi(list + length + 1);
        }
        list += item + (list[item] == ',');
    }
    return 0;
}

unsigned int fake_calls_of(const char *symbol)
{
    unsigned int calls = 0;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < MAX_SYMBOLS && counters[i].symbol; i++) {
        if (strcmp(counters[i].symbol, symbol) == 0)
            calls = counters[i].calls;
    }
    pthread_mutex_unlock(&mutex);
    return calls;
}
