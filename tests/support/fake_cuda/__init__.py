"""The GPU path without a GPU: a made-up device "cuda" whose tensors have values.

Every tensor on "cuda" is one of torch's `FakeTensor`s, whose mode knows device, type and shape of each operation as
CUDA has them and refuses to mix devices. Beside it stands a *shadow*, an ordinary tensor on the CPU on which the same
operation is made, so that values exist, Python can branch on them, and results can be compared with the CPU's. Counted
on the way: operations that would launch a kernel, and those for which Python would wait for the GPU.

Not seen: the kernels themselves (speed, order of sums, atomics, shapes that a library refuses), NCCL, streams,
inference mode, and whatever FakeTensorMode's rules are laxer about than CUDA.

`shim.load` must run before torch is imported, so that this lives in a process of its own:

    python -m support.fake_cuda CASE ...
"""
