// Files of torch.save() that somebody made to break or to trick a reader, and files that are no
// checkpoints: refused, whatever is asked for, and nothing in them is ever run.
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/foreign/torch_testing.h"
#include "tests/golden/hostile.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
namespace made = checkpoint::made;
using std::string_literals::operator""s;

constexpr std::int64_t kHuge = INT64_MAX;

// ---- What is no checkpoint

TEST(HostileCheckpoint, WhatIsNoCheckpointIsCalledWhatItIs) {
  const std::vector<Hostile> strangers{
      {"page", "<!DOCTYPE html><html><body>404</body></html>", {"an HTML page"}},
      {"page with blanks", "\xef\xbb\xbf\r\n  <HTML>", {"an HTML page"}},
      {"error of a server", "<?xml version=\"1.0\"?><Error/>", {"an XML text"}},
      {"answer of a server", R"({"error": "no access"})", {"a JSON text"}},
      {"zeros", std::string(kMib, '\0'), {"zeros"}},
      {"empty", "", {"an empty file"}},
      {"text", "Dear reader,\nthe weights are elsewhere.\n", {"no format that is known"}},
      {"lfs", "version https://git-lfs.github.com/spec/v1\nsize 5\n", {"a git-lfs pointer"}},
      {"gzip", "\x1f\x8b\x08" + std::string(50, 'x'), {"gzip"}},
      {"bare pickle", "\x80\x04\x95\x02\0\0\0\0\0\0\0}."s, {"a bare pickle"}},
      {"bare evil pickle", "\x80\x04" + made::global("os", "system") + ".", {"a bare pickle"}},
      {"legacy",
       "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."s,
       {"before PyTorch 1.6"}},
      {"legacy of protocol 4",
       "\x80\x04\x95\x0d\0\0\0\0\0\0\0\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19."s,
       {"before PyTorch 1.6"}},
      {"tar", "x" + std::string(256, '\0') + "ustar" + std::string(250, '\0'), {"a tar archive"}},
      {"escape sequences", "\x1b]0;owned\x07\x1b[2J", {"no format that is known"}},
  };
  for (const char* file : {"in.pt", "in.safetensors", "in.bin"}) {
    expect_all_refused(strangers, file);
  }
}

// ---- Pickles

/// Refused with LS-5013 in a file of torch.save. What is to be run would make a file.
void expect_nothing_run(const std::string& name, const std::string& says,
                        const std::function<std::string(const std::string&)>& pickle) {
  SCOPED_TRACE(name);
  const TemporaryFolder folder;
  const std::string order = "touch " + (folder / "mark");
  write_file(folder / "in.pt", made::torch_file_of(pickle(order), {}));
  expect_refused(folder, folder / "in.pt", folder / "in.pt",
                 {"LS-5013", says, "nothing was executed"});
}

/// module.name from the stack, as protocol 4 has it.
std::string stacked(const std::string& module, const std::string& name) {
  return made::text(module) + made::text(name) + "\x93";
}

TEST(HostilePickle, NothingThatItNamesIsCalled) {
  const std::vector<std::pair<std::string, std::string>> names{
      {"os", "system"},
      {"posix", "system"},
      {"nt", "system"},
      {"os", "popen"},
      {"subprocess", "Popen"},
      {"subprocess", "check_output"},
      {"builtins", "eval"},
      {"builtins", "exec"},
      {"builtins", "getattr"},
      {"builtins", "__import__"},
      {"builtins", "open"},
      {"importlib", "import_module"},
      {"runpy", "run_path"},
      {"pickle", "loads"},
      {"shutil", "rmtree"},
      {"pathlib", "Path.touch"},
      {"torch", "load"},
      {"torch.hub", "load"},
      {"torch.serialization", "os.system"},
      {"collections", "OrderedDict.__init__.__globals__"},
      {"numpy", "load"},
  };
  for (const auto& [module, name] : names) {
    const std::string full = module + "." + name;
    expect_nothing_run(full, full, [&](const std::string& order) {
      return made::pickle(made::reduce(made::global(module, name), {made::text(order)}));
    });
    expect_nothing_run(full + " from the stack", full, [&](const std::string& order) {
      return "\x80\x04" + made::reduce(stacked(module, name), {made::text(order)}) + ".";
    });
  }
}

TEST(HostilePickle, NoOpcodeThatRunsSomethingIsFollowed) {
  const std::string system = made::global("os", "system");
  const std::string dict = made::global("collections", "OrderedDict");
  const auto all = [&](const std::string& order) {
    const std::string args = made::tuple({made::text(order)});
    const std::string call = system + args + "R";
    return std::vector<std::pair<std::string, std::string>>{
        {"old names", "\x80\x02" + made::global("__builtin__", "eval") + args + "R."},
        {"instance", "(S'" + order + "'\nios\nsystem\n."},
        {"instance from the stack", "(" + system + made::text(order) + "o."},
        {"new object", "\x80\x02" + system + args + "\x81."},
        {"new object with names", "\x80\x04" + system + args + "}\x92."},
        {"nested in what is allowed", "\x80\x02" + dict + made::tuple({made::list({call})}) + "R."},
        {"nested in a value", made::pickle(made::dict({{"w", call}}))},
        {"as a key", "\x80\x02}" + call + "Ks."},
        {"as a state", "\x80\x02" + dict + ")R" + call + "b."},
        {"as a storage", made::pickle(made::tensor(made::tuple({call}) + "Q", 0, {1}, {1}))},
        {"as a type of storage",
         made::pickle(made::tensor(made::tuple({made::text("storage"), system, made::text("0"),
                                                made::text("cpu"), "K\x01"}) +
                                       "Q",
                                   0, {1}, {1}))},
        {"named arguments",
         "\x80\x04" + dict + ")" + made::dict({{"x", made::text(order)}}) + "\x92."},
        {"state of a dict", "\x80\x02}" + made::dict({{"__setstate__", made::text(order)}}) + "b."},
        {"call of a number", "\x80\x02K\x01)R."},
        {"call of what was made", "\x80\x02" + dict + ")R" + args + "R."},
        {"registry", "\x80\x02\x82\x01."},
        {"registry of 16 bits", "\x80\x02\x83\x01\x01."},
        {"registry of 32 bits", "\x80\x02\x84\x01\x01\x01\x01."},
        {"escape sequences", "\x80\x02" + made::global("\x1b]0;owned\x07", "\x1b[2J") + "."},
    };
  };
  for (std::size_t i = 0; i < all("").size(); ++i) {
    expect_nothing_run(all("")[i].first, "byte ",
                       [&](const std::string& order) { return all(order)[i].second; });
  }
}

/// A tuple of a tuple of ..., each twice in the next: 2^60 values in 400 bytes.
std::string doubled() {
  std::string body = "N\x85q"s + '\0';
  for (int i = 0; i < 60; ++i) {
    const auto known = static_cast<char>(i);
    body += "h"s + known + "h" + known + "\x86q" + static_cast<char>(i + 1);
  }
  return "\x80\x02(" + body + "t.";
}

TEST(HostilePickle, SizesInItAreNotTrusted) {
  const std::string endless = made::le(1ULL << 63U, 8);
  const std::vector<std::pair<std::string, std::string>> pickles{
      {"\x80\x04\x8d" + endless + "x.", "cut"},
      {"\x80\x04\x8d" + made::le(~0ULL, 8) + "x.", "cut"},
      {"\x80\x04\x8e" + endless + "x.", "cut"},
      {"\x80\x05\x96" + endless + "x.", "cut"},
      {"\x80\x04\x95" + endless + "N.", "a frame that ends after the file"},
      {"\x80\x02X\xff\xff\xff\xffx.", "cut"},
      {"\x80\x02\x8b\xff\xff\xff\x7fx.", "a number of 2147483647 bytes"},
      {"L" + std::string(kMib, '9') + "L\n.", "not a whole number"},
      {"\x80\x02" + repeated("]", 100'000) + repeated("a", 99'999) + ".", "nested deeper than"},
      {"\x80\x02" + repeated("(", 200'000) + repeated("t", 200'000) + ".", "nested deeper than"},
      {doubled(), "repeat each other without end"},
      {"\x80\x02]" + repeated("2(lp0\n", 8) + ".", "byte "},
      {"\x80\x02]q\0h\0a."s, "holds itself"},
      {"\x80\x02h\x05.", "nothing was remembered as 5"},
      {"\x80\x02" + repeated("N\x94", 200'000) + ".", "more than one value"},
      {"\x80\x02]" + repeated("N", kMib) + ".", "more than one value"},
      {"\x80\x02" + repeated("]", kMib), "more values than such a file has"},
      {"\x80\x02R.", "empty stack"},
      {"\x80\x02t.", "no mark"},
      {"\x80\x02]", "cut"},
      {"\x80\x02N.N.", "follow the end"},
      {"\x80\xff.", "a protocol above 5"},
      {"\x80\x02\x01.", "opcode 1 does not exist"},
      {"\x80\x02X\x02\0\0\0\xff\xfe."s, "not UTF-8"},
      {"\x80\x05\x97.", "outside the file"},
      {"", "cut"},
  };
  std::vector<Hostile> table;
  for (const auto& [pickle, says] : pickles) {
    table.push_back({says, made::torch_file_of(pickle, {}), {"LS-5012", says}});
  }
  expect_all_refused(table, "in.pt");
}

TEST(HostilePickle, TensorsInItDoNotLeaveTheirStorages) {
  using Numbers = std::vector<std::int64_t>;
  const auto of = [](std::int64_t elements, std::int64_t offset, const Numbers& shape,
                     const Numbers& stride) {
    return made::tensor(made::storage("FloatStorage", "0", elements), offset, shape, stride);
  };
  const std::vector<std::pair<std::string, std::string>> tensors{
      {of(1, 0, {2}, {1}), "leaves its storage"},
      {of(1, 1, {1}, {1}), "leaves its storage"},
      {of(1, kHuge, {1}, {1}), "leaves its storage"},
      {of(1, 0, {2, 2}, {kHuge, kHuge}), "leaves its storage"},
      {of(1, 0, {2}, {-1}), "leaves its storage"},
      {of(1, 0, {-1}, {1}), "leaves its storage"},
      {of(1, -1, {1}, {1}), "no offset"},
      {of(2, 0, {1}, {1}), "its storage 0 should have 8 bytes, it has 4"},
      {of(kHuge, 0, {1}, {1}), "a storage of no size"},
      {of(1, 0, {1LL << 40, 1LL << 40}, {0, 0}), "has no size in bytes"},
      {of(1, 0, {1LL << 40}, {0}), "1000 times the bytes of the file"},
      {of(1, 0, {1, 1}, {1}), "no sizes and strides"},
      {made::tensor(made::storage("FloatStorage", "../0", 1), 0, {1}, {1}), "not in the archive"},
      {made::tensor(made::storage("FloatStorage", std::string(kMib, 'k'), 1), 0, {1}, {1}),
       "without a key"},
      {made::dict({{"w", of(1, 0, {1}, {1})}, {"w", of(1, 0, {1}, {0})}}), "two tensors are named"},
      {made::dict({{std::string(kMib, 'n'), of(1, 0, {1}, {1})}}), "a name longer than"},
  };
  std::vector<Hostile> table;
  for (const auto& [tensor, says] : tensors) {
    table.push_back({says, made::torch_file_of(made::pickle(tensor), {"abcd"}), {"LS-5012", says}});
  }
  expect_all_refused(table, "in.pt");
}

// ---- Zip archives

/// A tensor of one float, which is the storage "0".
std::string one_float() {
  return made::pickle(
      made::dict({{"w", made::tensor(made::storage("FloatStorage", "0", 1), 0, {1}, {1})}}));
}

/// A GiB of zeros as about a MiB of deflate.
std::string deflated_gib() {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string zeros(kMib, '\0');
  std::string packed(kMib, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(zeros.data());
  stream.avail_in = static_cast<uInt>(zeros.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(::deflate(&stream, Z_FULL_FLUSH), Z_OK);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return repeated(packed, 1024) + "\x03\0"s;  // an empty last block
}

/// The entry `name`, with these bytes as what a GiB was packed to.
std::string bomb_of(const std::string& name, const std::string& packed) {
  std::vector<made::ZipPart> parts{
      {"x/data.pkl", one_float()}, {"x/data/0", "abcd"}, {"x/version", "3\n"}};
  for (made::ZipPart& part : parts) {
    if (part.name == name) part = {.name = name, .bytes = packed, .method = 8};
  }
  std::string zip = made::zip_of(parts);
  const std::string gib = made::le(1ULL << 30U, 4);
  const std::size_t local = zip.find(name) - 30;
  const std::size_t central = zip.rfind(name) - 46;
  return replaced(replaced(zip, local + 22, gib), central + 24, gib);
}

TEST(HostileArchive, ABombIsRefusedAndNotUnpacked) {
  const std::string packed = deflated_gib();
  ASSERT_LT(packed.size(), 2 * kMib);
  expect_all_refused({{"pickle", bomb_of("x/data.pkl", packed), {"x/data.pkl is compressed"}},
                      {"storage", bomb_of("x/data/0", packed), {"x/data/0 is compressed"}}},
                     "in.pt");
}

TEST(HostileArchive, ADirectoryThatContradictsTheFileIsRefused) {
  const std::vector<made::ZipPart> parts{
      {"x/data.pkl", one_float()}, {"x/data/0", "abcd"}, {"x/version", "3\n"}};
  const std::string good = made::torch_file_of(one_float(), {"abcd"});
  const std::string zip = made::zip_of(parts);
  const std::size_t end = zip.size() - 22;
  const auto wide = [&](std::uint64_t bytes, std::uint64_t header) {
    std::vector<made::ZipPart> changed = parts;
    changed[1].wide = true;
    changed[1].claimed_bytes = bytes;
    changed[1].header = header;
    return made::zip_of(changed);
  };
  const std::string inner = made::zip_of({{"x/data/0", "abcd"}}).substr(0, 42);
  const std::vector<Hostile> table{
      {"more entries than there are",
       replaced(zip, end + 8, made::le(9, 2) + made::le(9, 2)),
       {"9 entries in a directory of"}},
      {"fewer", replaced(zip, end + 8, made::le(1, 2) + made::le(1, 2)), {"are no entry"}},
      {"endless directory", replaced(zip, end + 12, made::le(0xfffffffe, 4)), {"does not end"}},
      {"directory behind the file",
       replaced(zip, end + 16, made::le(0xfffffffe, 4)),
       {"does not end"}},
      {"size of 2^63", wide(1ULL << 63U, 0xffff), {"x/data/0"}},
      {"size of 2^64", wide(~0ULL - 1, 0xffff), {"x/data/0"}},
      {"place of 2^63", wide(4, 1ULL << 63U), {"begins behind the entries"}},
      {"one within the other",
       made::zip_of({{"x/data.pkl", one_float() + inner},
                     {.name = "x/data/0", .bytes = "abcd", .header = 40 + one_float().size()}}),
       {"overlaps"}},
      {"one name twice",
       made::zip_of({{"x/data.pkl", one_float()}, {"x/data.pkl", one_float()}}),
       {"two entries are named"}},
      {"two pickles",
       made::zip_of({{"x/data.pkl", one_float()}, {"y/data.pkl", one_float()}}),
       {"more than one data.pkl"}},
      {"encrypted",
       made::zip_of({{.name = "x/data.pkl", .bytes = one_float(), .flags = 1}}),
       {"encrypted"}},
      {"other bytes than its sum", replaced(good, good.find("}("), "]("), {"checksum"}},
      {"program",
       made::zip_of({{"x/data.pkl", one_float()}, {"x/constants.pkl", "N."}}),
       {"a TorchScript program"}},
      {"document", made::zip_of({{"word/document.xml", "<w/>"}}), {"no data.pkl"}},
      {"no entry", made::zip_of({}), {"no format that is known"}},
      {"bytes before", "PK\3\4" + zip, {"bytes were added or are missing"}},
      {"bytes behind", zip + "PK", {"truncated"}},
      {"cut by one", zip.substr(0, zip.size() - 1), {"truncated"}},
      {"half", zip.substr(0, zip.size() / 2), {"truncated"}},
      {"a header", zip.substr(0, 30), {"truncated", "no entry is complete"}},
  };
  expect_all_refused(table, "in.pt");
}

TEST(HostileArchive, NamesOfEntriesAreNoPaths) {
  const TemporaryFolder folder;
  const std::string inside = folder / "a/b";
  fs::create_directories(inside);
  const std::string absolute = folder / "absolute";
  write_file(inside + "/in.pt", made::zip_of({{"x/data.pkl", one_float()},
                                              {"x/data/0", "abcd"},
                                              {"../up", "1"},
                                              {"../../../../../../etc/up", "2"},
                                              {absolute, "3"},
                                              {"x/../../up", "4"},
                                              {"x/\x1b[2J", "5"}}));
  const auto before = listing(folder.path());
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"inspect", inside + "/in.pt"}, {"verify", inside + "/in.pt"}}) {
    const ProgramResult result = ckpt(words);
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    EXPECT_FALSE(steers_terminal(result.out));
  }
  EXPECT_EQ(listing(folder.path()), before);
  EXPECT_EQ(ckpt({"convert", inside + "/in.pt", inside + "/out.safetensors"}).exit_code, 0);
  EXPECT_EQ(listing(folder.path()).size(), before.size() + 1);
}

}  // namespace
}  // namespace lockstep::test
