"""Distance of the sizing model from measurements that it has not seen: one module for each kind of data.

Each module has `rows(data: Path) -> list[Row]`, which reads the data folder and computes; nothing here prints.
"""
