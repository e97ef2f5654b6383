"""Take the types out of a kernel that is not running: an image (bzImage) in, its BTF out.

    python tools/kernel_btf.py .kernels/6.1/boot/vmlinuz-6.1.0-57-amd64 6.1.btf

They are what that kernel shows as /sys/kernel/btf/vmlinux; no guest has to boot for them. Needs the
program that compressed the image: xz or zstd.
"""

import argparse
import io
import shutil
import struct
import subprocess
from pathlib import Path

from elftools.elf.elffile import ELFFile

PROGRAMS = {b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip"}
SECTOR = 512


class ImageError(Exception):
    """An image that has no types, or that cannot be unpacked here."""


def kernel_btf(image: bytes) -> bytes:
    """Return the BTF in a kernel's image; raises ImageError.

    The setup header says where the compressed ELF file is (Documentation/arch/x86/boot.rst).
    """
    if image[0x202:0x206] != b"HdrS":
        raise ImageError("no bzImage")
    start, size = struct.unpack_from("<II", image, 0x248)
    start += ((image[0x1F1] or 4) + 1) * SECTOR
    packed = image[start : start + size]
    program = next((name for magic, name in PROGRAMS.items() if packed.startswith(magic)), None)
    if program is None:
        raise ImageError(f"compressed in an unknown way: {packed[:4].hex()}")
    if shutil.which(program) is None:
        raise ImageError(f"{program} is not installed")
    # It complains about the size that the kernel's build puts behind its data.
    done = subprocess.run([program, "-dcq"], input=packed, capture_output=True, check=False)
    section = ELFFile(io.BytesIO(done.stdout)).get_section_by_name(".BTF")
    if section is None:
        raise ImageError("the kernel has no section .BTF")
    return section.data()


def main() -> None:
    """Read the arguments and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("image", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    options.output.write_bytes(kernel_btf(options.image.read_bytes()))


if __name__ == "__main__":
    main()
