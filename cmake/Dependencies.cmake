# Debian packages that torch-free folders use; each folder names what it links here and nowhere else.
find_package(nlohmann_json 3.11 REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)
find_package(ZLIB REQUIRED)
find_package(CLI11 REQUIRED)
find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)  # header-only: no library to load at start
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)

set(LOCKSTEP_LIBS_base Threads::Threads nlohmann_json::nlohmann_json OpenSSL::Crypto)
set(LOCKSTEP_LIBS_data_formats ZLIB::ZLIB)
set(LOCKSTEP_LIBS_cli CLI11::CLI11)
