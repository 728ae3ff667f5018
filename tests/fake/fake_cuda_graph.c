/* SPDX-License-Identifier: MIT */
/* What the programs of tests/gpu call beside the library. A captured launch is recorded like any
 * other, and a graph does nothing. */
#include "fake_state.h"

struct CUgraph_st;
struct CUgraphExec_st;

int cuCtxCreate_v2(struct CUctx_st **context, unsigned int flags, int device);
int cuCtxDestroy_v2(struct CUctx_st *context);
int cuStreamBeginCapture_v2(struct CUstream_st *stream, int mode);
int cuStreamEndCapture(struct CUstream_st *stream, struct CUgraph_st **graph);
int cuGraphInstantiateWithFlags(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                                unsigned long long flags);
int cuGraphLaunch(struct CUgraphExec_st *exec, struct CUstream_st *stream);
int cuGraphExecDestroy(struct CUgraphExec_st *exec);
int cuGraphDestroy(struct CUgraph_st *graph);

int cuCtxCreate_v2(struct CUctx_st **context, unsigned int flags, int device)
{
    const int result = fake_begin("cuCtxCreate_v2");
    if (result || flags)
        return result ? result : INVALID_VALUE;
    *context = fake_cuda_context(device);
    return fake_push(*context);
}

int cuCtxDestroy_v2(struct CUctx_st *context)
{
    (void)context; /* it lives as long as the library */
    return fake_begin("cuCtxDestroy_v2");
}

int cuStreamBeginCapture_v2(struct CUstream_st *stream, int mode)
{
    (void)stream, (void)mode;
    return fake_begin_in_context("cuStreamBeginCapture_v2");
}

int cuStreamEndCapture(struct CUstream_st *stream, struct CUgraph_st **graph)
{
    (void)stream;
    *graph = NULL;
    return fake_begin_in_context("cuStreamEndCapture");
}

int cuGraphInstantiateWithFlags(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                                unsigned long long flags)
{
    (void)graph, (void)flags;
    *exec = NULL;
    return fake_begin_in_context("cuGraphInstantiateWithFlags");
}

int cuGraphLaunch(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
    (void)exec, (void)stream;
    return fake_begin_in_context("cuGraphLaunch");
}

int cuGraphExecDestroy(struct CUgraphExec_st *exec)
{
    (void)exec;
    return fake_begin("cuGraphExecDestroy");
}

int cuGraphDestroy(struct CUgraph_st *graph)
{
    (void)graph;
    return fake_begin("cuGraphDestroy");
}
