"""What torch's build for the CPU lacks for a backward pass on "cuda": a device guard, hooks, and an accelerator."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
from pathlib import Path

SOURCE = r"""
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
using c10::Device, c10::DeviceIndex, c10::Stream;
constexpr auto CUDA = c10::DeviceType::CUDA;

struct Guard final : c10::impl::NoOpDeviceGuardImpl<CUDA> {
  static Stream stream() { return Stream(Stream::DEFAULT, {CUDA, 0}); }
  Device exchangeDevice(Device) const override { return {CUDA, 0}; }
  Device getDevice() const override { return {CUDA, 0}; }
  Stream getStream(Device) const noexcept override { return stream(); }
  Stream getDefaultStream(Device) const override { return stream(); }
  Stream exchangeStream(Stream) const noexcept override { return stream(); }
  void record(void**, const Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
};
static c10::impl::DeviceGuardImplRegistrar registrar(CUDA, new Guard());

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
};

namespace at {
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, Hooks)
namespace accelerator {
__attribute__((visibility("default"))) std::optional<c10::DeviceType> getAccelerator(bool) { return CUDA; }
}
}
"""


def build(folder: Path) -> Path:
    """Compile the shim, which takes some seconds, and return the library."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    torch = Path(spec.origin).parent
    source, library = folder / "shim.cpp", folder / "shim.so"
    source.write_text(SOURCE, encoding="ascii")
    subprocess.run(
        [
            *("g++", "-O0", "-std=c++20", "-shared", "-fPIC", f"-I{torch}/include", str(source)),
            *(f"-L{torch}/lib", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{torch}/lib", "-o", str(library)),
        ],
        check=True,
    )
    return library


def load() -> None:
    """Load the library that `FAKE_CUDA_SHIM` names, before torch, so that `getAccelerator` is found in it."""
    ctypes.CDLL(os.environ["FAKE_CUDA_SHIM"], ctypes.RTLD_GLOBAL)
