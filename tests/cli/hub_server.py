"""A small stand-in for Hugging Face's server, for the tests of `sam3 models pull`.

    hub_server.py FOLDER PORT_FILE [--token T] [--break-after N] [--no-ranges] [--damage NAME] [--evil]

Serves FOLDER as the repository test/shapes. --break-after closes the connection of the first transfer of each large file
after so many bytes; --damage changes a byte of a file on its way; --evil lists a file outside the folder. Each request is a
line on stdout.
"""
import argparse
import hashlib
import http.server
import json
import pathlib
import sys

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("port_file", type=pathlib.Path)
parser.add_argument("--token")
parser.add_argument("--break-after", type=int)
parser.add_argument("--no-ranges", action="store_true")
parser.add_argument("--damage")
parser.add_argument("--evil", action="store_true")
options = parser.parse_args()
broken = set()


def listing():
    files = []
    for path in sorted(p for p in options.folder.rglob("*") if p.is_file()):
        data = path.read_bytes()
        name = "../evil.json" if options.evil else str(path.relative_to(options.folder))
        item = {"type": "file", "path": name, "size": len(data),
                "oid": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()}
        if path.suffix == ".gguf":  # large files are named by their SHA-256
            item["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data)}
        files.append(item)
    return json.dumps(files).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.path, self.headers.get("Range", "-"), flush=True)
        if options.token and not self.path.startswith("/blobs/") and self.headers.get("Authorization") != "Bearer " + options.token:
            return self.answer(401, b"no")
        if self.path == "/api/models/test/shapes/tree/main?recursive=true":
            return self.answer(200, listing())
        mark = "/test/shapes/resolve/main/"
        if self.path.startswith(mark):  # as the real one does, large files come from elsewhere
            self.send_response(302)
            self.send_header("Location", "/blobs/" + self.path[len(mark):])
            self.end_headers()
            return None
        path = options.folder / self.path[len("/blobs/"):]
        if not self.path.startswith("/blobs/") or not path.is_file():
            return self.answer(404, b"<html>not here</html>")
        data = bytearray(path.read_bytes())
        if path.name == options.damage:
            data[len(data) // 2] ^= 1
        self.send_file(path.name, bytes(data))

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_file(self, name, data):
        start, status = 0, 200
        asked = self.headers.get("Range")
        if asked and not options.no_ranges:
            start, status = int(asked.split("=")[1].split("-")[0]), 206
        self.send_response(status)
        self.send_header("Content-Length", str(len(data) - start))
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if options.break_after and name not in broken and len(data) > options.break_after:
            broken.add(name)
            self.wfile.write(data[start:start + options.break_after])
            self.close_connection = True
            return
        self.wfile.write(data[start:])

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
options.port_file.write_text(str(server.server_address[1]))
sys.stdout.flush()
server.serve_forever()
