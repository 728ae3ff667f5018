# SPDX-License-Identifier: MIT
"""Timing a peer as bench/bench_states.c times ours: graph replays between two events, on a card that
has rested and on one that has worked, with the mean SM clock of each stretch."""

import ctypes
import statistics
import time

REST_S = 0.06
NUM_SAMPLES = 7
STRETCH_US = 50000.0
NUM_FALLING, NUM_STEADY = 2, 8
NUM_SMS = 1024

# Notes each SM's cycle counter beside the time, after a wait in which the host queues what follows.
MARK = b"""
.version 6.4
.target sm_75
.address_size 64
.visible .entry mark(.param .u64 marks, .param .u64 delay)
{
    .reg .pred %waits, %is_known;
    .reg .u32 %sm;
    .reg .u64 %at, %delay, %begin, %now, %waited, %cycles;
    ld.param.u64 %delay, [delay];
    mov.u64 %begin, %globaltimer;
wait:
    mov.u64 %now, %globaltimer;
    sub.u64 %waited, %now, %begin;
    setp.lt.u64 %waits, %waited, %delay;
    @%waits bra wait;
    mov.u64 %cycles, %clock64;
    mov.u64 %now, %globaltimer;
    mov.u32 %sm, %smid;
    setp.lt.u32 %is_known, %sm, 1024;
    ld.param.u64 %at, [marks];
    cvta.to.global.u64 %at, %at;
    mad.wide.u32 %at, %sm, 16, %at;
    @%is_known st.global.v2.u64 [%at], {%cycles, %now};
    ret;
}
"""


class Clock:
    """The mean SM clock between begin() and end(). Unknown where the driver takes no such kernel."""

    def __init__(self, torch):
        self.torch = torch
        self.marks = torch.zeros(2, NUM_SMS, 2, dtype=torch.int64, device='cuda')
        self.num_sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.driver = ctypes.CDLL('libcuda.so.1')
        self.kernel = ctypes.c_void_p()
        module = ctypes.c_void_p()
        failed = self.driver.cuModuleLoadData(ctypes.byref(module), MARK) or \
            self.driver.cuModuleGetFunction(ctypes.byref(self.kernel), module, b'mark')
        if failed:
            self.kernel = None

    def note(self, which, delay_ns):
        if not self.kernel:
            return
        marks = ctypes.c_uint64(self.marks[which].data_ptr())
        delay = ctypes.c_uint64(delay_ns)
        arguments = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in (marks, delay)))
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        self.driver.cuLaunchKernel(self.kernel, self.num_sms, 1, 1, 1, 1, 1, 0, stream, arguments,
                                   None)

    def begin(self, delay_ns):
        self.marks.zero_()
        self.note(0, delay_ns)

    def end(self):
        self.note(1, 0)

    def mhz(self):
        begin, end = self.marks.cpu().tolist()
        pairs = [(b, e) for b, e in zip(begin, end) if b[1] and e[1] > b[1] and e[0] > b[0]]
        nanoseconds = sum(e[1] - b[1] for b, e in pairs)
        return 1e3 * sum(e[0] - b[0] for b, e in pairs) / nanoseconds if nanoseconds else 0


class Task:
    """Calls 0 .. num_calls - 1 of call(index), which returns its output: as a graph, or, where they
    cannot be captured, launched one by one."""

    def __init__(self, torch, clock, call, num_calls):
        self.torch, self.clock, self.call, self.num_calls = torch, clock, call, num_calls
        self.output = None
        self.graph = None
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for index in range(min(num_calls, 3)):
            call(index)
        torch.cuda.synchronize()
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.run_calls()
            self.graph = graph
        except RuntimeError:
            torch.cuda.synchronize()

    def run_calls(self):
        for index in range(self.num_calls):
            self.output = self.call(index)

    def sample(self, times=1):
        """(us a call, MHz) over some replays, back to back."""
        self.torch.cuda.synchronize()
        self.clock.begin(50000 if self.graph else 200000)
        self.begin.record()
        for _ in range(times):
            if self.graph:
                self.graph.replay()
            else:
                self.run_calls()
        self.end.record()
        self.clock.end()
        self.torch.cuda.synchronize()
        us = 1e3 * self.begin.elapsed_time(self.end) / (times * self.num_calls)
        return us, self.clock.mhz()


def median(samples):
    return tuple(statistics.median(values) for values in zip(*samples))


def rested(task, rest_each):
    task.sample()
    samples = []
    for index in range(NUM_SAMPLES):
        if rest_each or index == 0:
            time.sleep(REST_S)
        samples.append(task.sample())
    return median(samples)


def sustained(task):
    us, _ = task.sample()
    times = int(STRETCH_US / (us * task.num_calls)) + 1
    samples = [task.sample(times) for _ in range(NUM_FALLING + NUM_STEADY)]
    return median(samples[NUM_FALLING:])


def time_states(task, states, rest_each):
    """{state: (us a call, MHz)}."""
    timed = {}
    if 'rested' in states:
        timed['rested'] = rested(task, rest_each)
    if 'sustained' in states:
        timed['sustained'] = sustained(task)
    return timed
