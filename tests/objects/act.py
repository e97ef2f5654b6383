"""Do what the programs of counting.c count: three getppid(), five packets, work for a while."""

import os
import socket
import time

for _ in range(3):
    os.getppid()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
    own.bind(("127.0.0.1", 0))
    for _ in range(5):
        own.sendto(b"x", own.getsockname())
until = time.process_time() + 0.3
while time.process_time() < until:
    pass
