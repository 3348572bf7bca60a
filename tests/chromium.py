"""Chromium by its DevTools protocol: what a page looks like in a window of a width, and what a script says of it."""

import asyncio
import base64
import json
import re
import shutil
import subprocess
from contextlib import contextmanager

from tornado.websocket import websocket_connect

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def start_chromium(folder):
    """Start the browser with its profile in a folder; gives the address of its protocol."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0"]
    command = [PROGRAM, f"--user-data-dir={folder}", *options, "about:blank"]
    browser = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield next(found[1] for line in browser.stderr if (found := re.search(r"listening on (ws:\S+)", line)))
    finally:
        browser.terminate()
        browser.wait(30)
        browser.stderr.close()


def look_at(address, url, width, dark=False, script="0", picture=None, height=1000):
    """Open a page at a width in pixels, save its picture if a path is given, and return the value of a script."""
    return asyncio.run(_look_at(address, url, width, dark, script, picture, height))


async def _look_at(address, url, width, dark, script, picture, height):
    socket = await websocket_connect(address, max_message_size=2**30)
    session, number = {}, 0

    async def ask(method, **parameters):
        nonlocal number
        number += 1
        await socket.write_message(json.dumps({"id": number, "method": method, "params": parameters, **session}))
        while (answer := json.loads(await socket.read_message())).get("id") != number:
            pass
        return answer["result"]

    target = (await ask("Target.createTarget", url="about:blank"))["targetId"]
    session["sessionId"] = (await ask("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    await ask("Emulation.setEmulatedMedia", features=[scheme])
    await ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
    await ask("Page.navigate", url=url)
    loaded = "new Promise(done => document.readyState == 'complete' ? done() : addEventListener('load', done))"
    await ask("Runtime.evaluate", expression=loaded, awaitPromise=True)
    value = (await ask("Runtime.evaluate", expression=script, returnByValue=True))["result"].get("value")
    if picture is not None:
        shown = await ask("Page.captureScreenshot")
        picture.write_bytes(base64.b64decode(shown["data"]))
    session.clear()
    await ask("Target.closeTarget", targetId=target)
    socket.close()
    while await socket.read_message() is not None:
        pass
    return value
