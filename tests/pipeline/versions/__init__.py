"""The pipeline's tests on other versions of Python and PySpark: `python -m tests.pipeline.versions`."""
