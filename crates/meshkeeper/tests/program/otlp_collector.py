"""A collector for the tests: decodes what comes with OpenTelemetry's own messages, and writes a line of JSON a span.

Arguments: a file for the lines, and a file for the port. A file `refuse` beside them makes it answer 503.
"""
import http.server
import json
import os
import sys

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service

LINES, PORT = sys.argv[1:3]
REFUSE = os.path.join(os.path.dirname(LINES), "refuse")


def value(any_value):
    return getattr(any_value, any_value.WhichOneof("value"))


def attributes(pairs):
    return {pair.key: value(pair.value) for pair in pairs}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        refuse = os.path.exists(REFUSE)
        if not refuse:
            assert self.headers["content-type"] == "application/x-protobuf"
            self.keep(body)
        self.send_response(503 if refuse else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def keep(self, body):
        request = service.ExportTraceServiceRequest.FromString(body)
        # Nothing that the messages do not know, and nothing lost.
        assert request.SerializeToString(deterministic=True)
        with open(LINES, "a") as lines:
            for of in request.resource_spans:
                for scope in of.scope_spans:
                    for span in scope.spans:
                        line = {
                            "path": self.path,
                            "header": self.headers.get("x-token"),
                            "resource": attributes(of.resource.attributes),
                            "scope": scope.scope.name,
                            "trace": span.trace_id.hex(),
                            "id": span.span_id.hex(),
                            "parent": span.parent_span_id.hex(),
                            "name": span.name,
                            "kind": span.kind,
                            "began": span.start_time_unix_nano,
                            "ended": span.end_time_unix_nano,
                            "attributes": attributes(span.attributes),
                            "status": span.status.code,
                            "error": span.status.message,
                        }
                        lines.write(json.dumps(line) + "\n")

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
with open(PORT + ".new", "w") as port:
    port.write(str(server.server_address[1]))
os.rename(PORT + ".new", PORT)
server.serve_forever()
