"""A headless Chromium that opens a page from disk, for the tests of the report and of the player.

``with browser(path, width=390, dark=True) as page: page.run("return document.title")``. Debian's chromium is installed
on first use where the tests run as root; where that is impossible the test is skipped, and says why.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
PACKAGES = ("chromium", "chromium-driver", "fonts-liberation")
INSTALL_SECONDS = 480


@dataclass(frozen=True)
class Page:
    """An open page: scripts run in it, keys and clicks reach it as a person's do."""

    driver: webdriver.Chrome

    def run(self, script: str, *arguments: Any) -> Any:
        """What ``script`` (the body of a function) returns."""
        return self.driver.execute_script(script, *arguments)

    def wait_for(self, script: str, seconds: float = 20) -> Any:
        """The first truthy answer of ``script``; fails after ``seconds``."""
        return WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda _: self.run(script), script)

    def click(self, selector: str) -> None:
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def press(self, key: str, selector: str = "body") -> None:
        """Sends one key by its Selenium name (``ARROW_RIGHT``, ``SPACE``) or as a character."""
        self.driver.find_element(By.CSS_SELECTOR, selector).send_keys(getattr(Keys, key, key))

    def console_errors(self) -> list[str]:
        """Errors that the console has shown since the last call: failed scripts, failed requests, console.error."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def requests(self) -> list[str]:
        """Addresses that the page fetched beside itself, without embedded ``data:`` and ``blob:`` ones."""
        names = self.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
        return [name for name in names if not name.startswith(("data:", "blob:"))]

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window: 0 on a page without a horizontal scroll bar."""
        return self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def screenshot(self, path: Path, *, full: bool = False) -> Path:
        """Writes a PNG of the window, or of the ``full`` page, and returns its path."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if full:
            height = self.run("return document.documentElement.scrollHeight")
            _set_window(self.driver, self.run("return window.innerWidth"), height)
        if not self.driver.save_screenshot(str(path)):
            raise OSError(f"no screenshot could be written to {path}")
        return path


@contextmanager
def browser(page: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> Iterator[Page]:
    """The page at ``page``, opened from disk in a window of ``width`` x ``height`` with an empty profile."""
    chromium, chromedriver = _programs()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
        try:
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
            # A window cannot be made narrower than 500 px; the emulated screen of a phone can.
            _set_window(driver, width, height)
            driver.get(Path(page).resolve().as_uri())
            yield Page(driver)
        finally:
            driver.quit()


def _set_window(driver: webdriver.Chrome, width: int, height: int) -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def _programs() -> tuple[str, str]:
    """The paths of chromium and of its driver; installs them once, and skips the test where that fails."""
    if _installed() is None:
        _install()
    programs = _installed()
    if programs is None:
        pytest.skip("no chromium and chromedriver here, and apt-get could not install them")
    return programs


def _installed() -> tuple[str, str] | None:
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    return (chromium, chromedriver) if chromium and chromedriver else None


def _install() -> None:
    """Installs Debian's packages, as root, one process at a time, once: a failed attempt is not repeated."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    failed = Path(tempfile.gettempdir()) / f"optimist-no-chromium-{os.getppid()}"
    with Path(tempfile.gettempdir(), "optimist-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _installed() is not None or failed.exists():
            return
        quiet = {"env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, "capture_output": True}
        try:
            subprocess.run(["apt-get", "update"], timeout=INSTALL_SECONDS, check=False, **quiet)
            install = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
            subprocess.run(install, timeout=INSTALL_SECONDS, check=True, **quiet)
        except (subprocess.SubprocessError, OSError):
            failed.touch()
