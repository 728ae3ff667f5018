/* SPDX-License-Identifier: MIT */
#include "runtime/cpu/cpu_context.h"

#include <stdint.h>

/* The sanitizers keep books of every stack; these are their published interfaces. */
#if FTJ_CPU_ASAN
void __sanitizer_start_switch_fiber(void **fake_stack, const void *stack, size_t stack_bytes);
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **stack, size_t *stack_bytes);
void __asan_unpoison_memory_region(const volatile void *memory, size_t bytes);
#endif
#if FTJ_CPU_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fibre);
void __tsan_switch_to_fiber(void *fibre, unsigned flags);
#endif

static void announce(struct ftj_cpu_context *from, struct ftj_cpu_context *to, void **fake_stack)
{
    to->came_from = from;
#if FTJ_CPU_ASAN
    __sanitizer_start_switch_fiber(fake_stack, to->stack, to->stack_bytes);
#else
    (void)fake_stack;
#endif
#if FTJ_CPU_TSAN
    if (!from->tsan_fibre)
        from->tsan_fibre = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to->tsan_fibre, 0);
#endif
}

/* On the new stack. What a host thread's own stack is, is learnt when it is first left. */
static void arrive(struct ftj_cpu_context *context)
{
#if FTJ_CPU_ASAN
    const void *stack = NULL;
    size_t stack_bytes = 0;
    __sanitizer_finish_switch_fiber(context->fake_stack, &stack, &stack_bytes);
    context->came_from->stack = (void *)(uintptr_t)stack;
    context->came_from->stack_bytes = stack_bytes;
#else
    (void)context;
#endif
}

/* Where a new context begins. */
static void enter(struct ftj_cpu_context *context)
{
    arrive(context);
    context->start(context->argument);
}

#if FTJ_CPU_UCONTEXT

static void enter_halves(unsigned high, unsigned low)
{
    enter((struct ftj_cpu_context *)(uintptr_t)((uint64_t)high << 32 | low));
}

static void prepare(struct ftj_cpu_context *context)
{
    const uint64_t address = (uintptr_t)context;
    getcontext(&context->machine);
    context->machine.uc_stack.ss_sp = context->stack;
    context->machine.uc_stack.ss_size = context->stack_bytes;
    context->machine.uc_link = NULL;
    makecontext(&context->machine, (void (*)(void))enter_halves, 2, (unsigned)(address >> 32),
                (unsigned)address);
}

static void switch_stacks(struct ftj_cpu_context *from, struct ftj_cpu_context *to)
{
    swapcontext(&from->machine, &to->machine);
}

#else

/* Push the registers that a call preserves, change stacks, pop them, return there. The floating
 * point control words are left alone: no kernel changes them. */
void ftj_cpu_switch_stacks(void **save, void *stack_pointer);
/* First return address of a new stack: calls the function in one preserved register with the
 * argument in another. */
void ftj_cpu_first_entry(void);

#if defined(__x86_64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".globl ftj_cpu_switch_stacks\n"
        ".hidden ftj_cpu_switch_stacks\n"
        ".type ftj_cpu_switch_stacks, @function\n"
        "ftj_cpu_switch_stacks:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size ftj_cpu_switch_stacks, . - ftj_cpu_switch_stacks\n"
        ".globl ftj_cpu_first_entry\n"
        ".hidden ftj_cpu_first_entry\n"
        ".type ftj_cpu_first_entry, @function\n"
        "ftj_cpu_first_entry:\n"
        "    movq %rbx, %rdi\n"
        "    callq *%r12\n"
        "    ud2\n"
        ".size ftj_cpu_first_entry, . - ftj_cpu_first_entry\n");

enum saved { SAVED_R15, SAVED_R14, SAVED_R13, SAVED_R12, SAVED_RBX, SAVED_RBP, RETURN_TO };
#define SAVED_ARGUMENT SAVED_RBX
#define SAVED_FUNCTION SAVED_R12
#define NUM_SAVED      9 /* two unused: the stack is aligned to 16 when first_entry calls */
#else
__asm__(".text\n"
        ".p2align 4\n"
        ".globl ftj_cpu_switch_stacks\n"
        ".hidden ftj_cpu_switch_stacks\n"
        ".type ftj_cpu_switch_stacks, %function\n"
        "ftj_cpu_switch_stacks:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size ftj_cpu_switch_stacks, . - ftj_cpu_switch_stacks\n"
        ".globl ftj_cpu_first_entry\n"
        ".hidden ftj_cpu_first_entry\n"
        ".type ftj_cpu_first_entry, %function\n"
        "ftj_cpu_first_entry:\n"
        "    mov x0, x19\n"
        "    blr x20\n"
        "    brk #0\n"
        ".size ftj_cpu_first_entry, . - ftj_cpu_first_entry\n");

enum saved { SAVED_X19, SAVED_X20, RETURN_TO = 11 };
#define SAVED_ARGUMENT SAVED_X19
#define SAVED_FUNCTION SAVED_X20
#define NUM_SAVED      20
#endif

static void prepare(struct ftj_cpu_context *context)
{
    const uintptr_t top = ((uintptr_t)context->stack + context->stack_bytes) & ~(uintptr_t)15;
    uintptr_t *frame = (uintptr_t *)top - NUM_SAVED;
    for (int i = 0; i < NUM_SAVED; i++)
        frame[i] = 0;
    frame[SAVED_ARGUMENT] = (uintptr_t)context;
    frame[SAVED_FUNCTION] = (uintptr_t)enter;
    frame[RETURN_TO] = (uintptr_t)ftj_cpu_first_entry;
    context->stack_pointer = frame;
}

static void switch_stacks(struct ftj_cpu_context *from, struct ftj_cpu_context *to)
{
    ftj_cpu_switch_stacks(&from->stack_pointer, to->stack_pointer);
}

#endif

void ftj_cpu_context_init(struct ftj_cpu_context *context, void *stack, size_t stack_bytes,
                          void (*start)(void *argument), void *argument)
{
    context->start = start;
    context->argument = argument;
    context->stack = stack;
    context->stack_bytes = stack_bytes;
    context->fake_stack = NULL;
#if FTJ_CPU_TSAN
    if (!context->tsan_fibre)
        context->tsan_fibre = __tsan_create_fiber(0);
#endif
    prepare(context);
}

void ftj_cpu_context_switch(struct ftj_cpu_context *from, struct ftj_cpu_context *to)
{
    announce(from, to, &from->fake_stack);
    switch_stacks(from, to);
    arrive(from);
}

_Noreturn void ftj_cpu_context_leave(struct ftj_cpu_context *from, struct ftj_cpu_context *to)
{
    announce(from, to, NULL);
    switch_stacks(from, to);
    __builtin_unreachable();
}

void ftj_cpu_context_finish(struct ftj_cpu_context *context)
{
#if FTJ_CPU_ASAN
    /* A context that was abandoned half way leaves its frames' red zones behind. */
    if (context->stack)
        __asan_unpoison_memory_region(context->stack, context->stack_bytes);
#endif
#if FTJ_CPU_TSAN
    if (context->tsan_fibre)
        __tsan_destroy_fiber(context->tsan_fibre);
#endif
    *context = (struct ftj_cpu_context){0};
}
