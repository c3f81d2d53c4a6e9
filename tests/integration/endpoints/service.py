# SPDX-License-Identifier: Apache-2.0
"""The HTTPS service of the rig alone: its certificate is FOLDER/cert.pem, its URL is printed. Usage: service.py FOLDER"""
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import Upstream, make_certificate  # noqa: E402

folder = sys.argv[1]
make_certificate(folder)
print(Upstream(folder).url(), flush=True)
threading.Event().wait()
