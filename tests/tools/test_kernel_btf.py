"""Kernel images give their types without booting; what is none is refused."""

import struct

import pytest


@pytest.fixture
def kernel_btf(tool):
    return tool("kernel_btf")


def image(packed, sectors=2):
    """Return a bzImage whose compressed part is ``packed``."""
    data = bytearray(512 * (sectors + 1) + 64)
    data[0x1F1] = sectors
    data[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", data, 0x248, 64, len(packed))
    return bytes(data) + packed


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no bzImage"),
        (bytes(4096), "no bzImage"),
        (image(b"none"), "compressed in an unknown way: 6e6f6e65"),
    ],
)
def test_other_files_are_refused(kernel_btf, data, reason):
    with pytest.raises(kernel_btf.ImageError, match=reason):
        kernel_btf.kernel_btf(data)


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_the_kernels_that_guests_boot(kernel_btf, guest, kernel):
    from pybpf.btf.reader import Btf

    try:
        data = kernel_btf.kernel_btf(guest._find_image(kernel).read_bytes())
    except guest.GuestError as error:
        pytest.skip(str(error))
    assert Btf(data).struct("task_struct")


def test_every_compression_is_named_by_its_program(kernel_btf, monkeypatch):
    monkeypatch.setattr(kernel_btf.shutil, "which", lambda _: None)
    for magic, program in kernel_btf.PROGRAMS.items():
        with pytest.raises(kernel_btf.ImageError, match=f"{program} is not installed"):
            kernel_btf.kernel_btf(image(magic))
