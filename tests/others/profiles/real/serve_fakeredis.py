"""Serves fakeredis until its input ends, on the port that it is given."""

import sys
import threading

from fakeredis import TcpFakeServer

server = TcpFakeServer(("127.0.0.1", int(sys.argv[1])))
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
