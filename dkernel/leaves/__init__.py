"""What most work does without: folders that can be deleted, each a row of `dkernel/leaf_table.py`."""
