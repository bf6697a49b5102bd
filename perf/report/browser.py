"""Chromium without a window, spoken to over a pipe as its DevTools protocol says. Standard library alone."""
import base64
import json
import os
import subprocess
import tempfile

FLAGS = ("--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
         "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars")


class Browser:
    def __init__(self, program="chromium"):
        self.profile = tempfile.TemporaryDirectory()
        ours_in, its_out = os.pipe()
        its_in, ours_out = os.pipe()

        def place_descriptors():
            """It reads descriptor 3 and writes descriptor 4."""
            reads, writes = os.dup(its_in), os.dup(its_out)
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"], close_fds=False,
            preexec_fn=place_descriptors, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(its_in)
        os.close(its_out)
        self.reads, self.writes = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        self.number, self.session, self.events = 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.writes.close()
        self.process.terminate()
        self.process.wait(30)
        self.reads.close()
        self.profile.cleanup()

    def read(self):
        message = b""
        while not message.endswith(b"\0"):
            byte = self.reads.read(1)
            if not byte:
                raise RuntimeError("chromium has ended")
            message += byte
        return json.loads(message[:-1])

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.writes.write(json.dumps(message).encode() + b"\0")
        self.writes.flush()
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer.get("method"))

    def open(self, address, width, height=800, scheme="light"):
        """A window of that width, whose page has been loaded when this returns."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=address)
        while "Page.loadEventFired" not in self.events:
            self.events.append(self.read().get("method"))

    def evaluate(self, expression):
        """The value of a JavaScript expression; of a promise: what it comes to."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def screenshot(self, path):
        """Of the whole page."""
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))
