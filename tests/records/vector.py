"""The reference batch: two records, (1000, "k1", "v1") and (1005, no key, "hello"), uncompressed."""

VECTOR = bytes.fromhex(
    "000000000000000000000048ffffffff0251893c4d00000000000100000000000003e800000000000003edffffffffffffffffffffffffffff"
    "0000000214000000046b310476310016000a02010a68656c6c6f00"
)
