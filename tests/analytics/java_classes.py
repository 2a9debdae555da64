"""Classes for a running Spark: those of `java/`, compiled, and those of archives."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

SOURCES = Path(__file__).with_name("java")


def compile_classes(folder: Path) -> Path:
    """Compile the classes of `java/`, and return the archive with them."""
    compiler, archiver = shutil.which("javac"), shutil.which("jar")
    if compiler is None or archiver is None:
        pytest.skip("javac is not on PATH: on Debian, apt-get install openjdk-17-jdk-headless")
    jars = Path(pyspark.__file__).with_name("jars")
    sources = [str(path) for path in SOURCES.glob("*.java")]
    classes, archive = folder / "classes", folder / "classes.jar"
    command = [compiler, "-d", str(classes), "-cp", f"{jars}/*", *sources]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    subprocess.run([archiver, "cf", str(archive), "-C", str(classes), "."], check=True, timeout=60)
    return archive


def load(spark: SparkSession, archives: list[Path]) -> Any:
    """Make the classes of archives known to driver and executors. Returns the class loader."""
    gateway: Any = spark.sparkContext._gateway
    java: Any = spark._jvm
    places = gateway.new_array(java.java.net.URL, len(archives))
    for number, archive in enumerate(archives):
        places[number] = java.java.net.URL(archive.as_uri())
        spark._jsc.addJar(str(archive))  # type: ignore[attr-defined]
    configuration = spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    loader = java.java.net.URLClassLoader(places, configuration.getClassLoader())
    configuration.setClassLoader(loader)
    return loader
