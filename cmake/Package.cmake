# The CMake package: see docs/guides/from-one-device.md.
