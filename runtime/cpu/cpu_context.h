/* SPDX-License-Identifier: MIT */
/* Stack switching: what a fibre is made of. Contexts never move between host threads. */
#ifndef FTJ_RUNTIME_CPU_CONTEXT_H
#define FTJ_RUNTIME_CPU_CONTEXT_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define FTJ_CPU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FTJ_CPU_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define FTJ_CPU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FTJ_CPU_TSAN 1
#endif
#endif
#ifndef FTJ_CPU_ASAN
#define FTJ_CPU_ASAN 0
#endif
#ifndef FTJ_CPU_TSAN
#define FTJ_CPU_TSAN 0
#endif

/* ucontext makes two system calls a switch, so it only serves the hosts without assembly below. */
#if !defined(FTJ_CPU_UCONTEXT)
#if defined(__x86_64__) || defined(__aarch64__)
#define FTJ_CPU_UCONTEXT 0
#else
#define FTJ_CPU_UCONTEXT 1
#endif
#endif

#if FTJ_CPU_UCONTEXT
#include <ucontext.h>
#endif

/* A stack and where on it to go on. A zeroed one stands for the host thread's own stack. */
struct ftj_cpu_context {
#if FTJ_CPU_UCONTEXT
    ucontext_t machine;
#else
    void *stack_pointer;
#endif
    void (*start)(void *argument);
    void *argument;
    void *stack; /* lowest address; borrowed */
    size_t stack_bytes;
    struct ftj_cpu_context *came_from;
    void *fake_stack; /* AddressSanitizer's */
    void *tsan_fibre; /* ThreadSanitizer's; owned */
};

/* Make the next switch to `context` call start(argument) on an empty stack. start() must not
 * return: it ends with ftj_cpu_context_leave(). */
void ftj_cpu_context_init(struct ftj_cpu_context *context, void *stack, size_t stack_bytes,
                          void (*start)(void *argument), void *argument);

/* Save the running context in `from` and go on in `to`. */
void ftj_cpu_context_switch(struct ftj_cpu_context *from, struct ftj_cpu_context *to);

/* The same, never to come back: `from` must be initialised before it is used again. */
_Noreturn void ftj_cpu_context_leave(struct ftj_cpu_context *from, struct ftj_cpu_context *to);

/* Give back what the sanitizers hold; the stack may then be unmapped. */
void ftj_cpu_context_finish(struct ftj_cpu_context *context);

#endif
