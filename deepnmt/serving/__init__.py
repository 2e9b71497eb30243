"""`deepnmt serve`: translations over HTTP, gathered into batches over requests, and a web page.

A request passes `connection` (uvicorn's, with limits), `guard` (size, origin, faults), `endpoints`, `translations` (the
bounded queue) and `worker` (batches). Only the worker's thread uses the models.
"""
