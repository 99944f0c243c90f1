// main of a fuzz target in an ordinary test build: replay RUNS CORPUS_FOLDER runs every file of the
// folder, then RUNS mutations of them drawn from a fixed seed. The same inputs come in every run,
// so a finding repeats. An input that breaks the target is left in the file named on standard
// error. Of the files exactly those that tests/fuzz/accepted.txt names must be accepted.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tests/fuzz/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t kMaxInputBytes = 1 << 16;

// What the signal handler saves: set before each call of the target.
const std::uint8_t* current_data = nullptr;
std::size_t current_size_bytes = 0;
std::array<char, 256> finding_path{};

extern "C" void save_finding(int signal_number) {
  const int fd = ::open(finding_path.data(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const bool saved = fd >= 0 && ::write(fd, current_data, current_size_bytes) >= 0;
  const char* text =
      saved ? "\nreplay: the input that broke the target is in " : "\nreplay: broken by ";
  (void)!::write(2, text, std::char_traits<char>::length(text));
  (void)!::write(2, finding_path.data(), std::char_traits<char>::length(finding_path.data()));
  (void)!::write(2, "\n", 1);
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}

void watch_for_findings(const std::string& name) {
  const std::string path = (fs::temp_directory_path() / ("lockstep-finding-" + name)).string();
  std::copy_n(path.begin(), std::min(path.size(), finding_path.size() - 1), finding_path.begin());
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) {
    ::signal(number, save_finding);
  }
}

void run(const Bytes& input) {
  current_data = input.data();
  current_size_bytes = input.size();
  ::alarm(10);  // a parser that does not end is a finding too
  LLVMFuzzerTestOneInput(input.data(), input.size());
  ::alarm(0);
}

struct Corpus {
  std::vector<std::string> names;  // TARGET/FILE
  std::vector<Bytes> inputs;
};

Corpus read_corpus(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  Corpus corpus;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.inputs.emplace_back(std::istreambuf_iterator<char>(in),
                               std::istreambuf_iterator<char>());
    corpus.names.push_back((folder.filename() / file.filename()).string());
  }
  return corpus;
}

/// Lines TARGET/FILE.
std::set<std::string> read_accepted(const fs::path& file) {
  std::ifstream in(file);
  std::set<std::string> names;
  for (std::string line; std::getline(in, line);) names.insert(line);
  return names;
}

/// \returns how many files were accepted that should not be, or refused.
int run_files(const Corpus& corpus, const std::set<std::string>& accepted) {
  int wrong = 0;
  for (std::size_t i = 0; i < corpus.inputs.size(); ++i) {
    lockstep::fuzz::accepted = false;
    run(corpus.inputs[i]);
    const bool expected = accepted.count(corpus.names[i]) > 0;
    if (lockstep::fuzz::accepted == expected) continue;
    std::cerr << "replay: " << corpus.names[i]
              << (expected ? " is no longer what the target reads"
                           : " is accepted, and tests/fuzz/accepted.txt does not name it")
              << " (tools/make_corpus.py makes both)\n";
    ++wrong;
  }
  return wrong;
}

// The fields that break readers are lengths: values around zero, signs and limits.
constexpr std::array<std::uint64_t, 10> kEdges{
    0, 1, 0x7f, 0xff, 0x7fff, 0xffffffff, 0x7fffffff, 0x80000000, 1ULL << 63, ~0ULL};

class Mutator {
 public:
  explicit Mutator(std::vector<Bytes> corpus) : corpus_(std::move(corpus)) {}

  Bytes next() {
    Bytes input = corpus_[below(corpus_.size())];
    for (std::size_t left = 1 + below(4); left > 0; --left) change(input);
    input.resize(std::min(input.size(), kMaxInputBytes));
    return input;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : generator_() % limit; }
  std::uint8_t any_byte() { return static_cast<std::uint8_t>(generator_()); }

  void change(Bytes& input) {
    switch (below(7)) {
      case 0:
        flip_bit(input);
        break;
      case 1:
        write_edge(input);
        break;
      case 2:
        input.resize(below(input.size() + 1));
        break;
      case 3:
        insert_bytes(input);
        break;
      case 4:
        erase_bytes(input);
        break;
      case 5:
        splice(input);
        break;
      default:
        if (!input.empty()) input[below(input.size())] = any_byte();
    }
  }

  void flip_bit(Bytes& input) {
    if (input.empty()) return;
    input[below(input.size())] ^= static_cast<std::uint8_t>(1U << below(8));
  }

  void write_edge(Bytes& input) {
    const std::size_t width = std::size_t{1} << below(4);
    if (input.size() < width) return;
    const std::size_t at = below(input.size() - width + 1);
    const std::uint64_t value = kEdges[below(kEdges.size())];
    const bool big_endian = below(2) == 1;
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t shift = 8 * (big_endian ? width - 1 - i : i);
      input[at + i] = static_cast<std::uint8_t>(value >> shift);
    }
  }

  void insert_bytes(Bytes& input) {
    const Bytes added(1 + below(16), any_byte());
    input.insert(input.begin() + offset(below(input.size() + 1)), added.begin(), added.end());
  }

  void erase_bytes(Bytes& input) {
    if (input.empty()) return;
    const std::size_t first = below(input.size());
    const std::size_t count = std::min(input.size() - first, 1 + below(16));
    input.erase(input.begin() + offset(first), input.begin() + offset(first + count));
  }

  void splice(Bytes& input) {
    const Bytes& other = corpus_[below(corpus_.size())];
    input.resize(below(input.size() + 1));
    input.insert(input.end(), other.begin() + offset(below(other.size() + 1)), other.end());
  }

  static std::ptrdiff_t offset(std::size_t value) { return static_cast<std::ptrdiff_t>(value); }

  std::vector<Bytes> corpus_;
  std::mt19937_64 generator_{20240229};
};

int replay(long runs, const fs::path& folder) {
  Corpus corpus = read_corpus(folder);
  if (corpus.inputs.empty()) {
    std::cerr << "replay: " << folder.string()
              << " holds no input (tools/make_corpus.py makes them)\n";
    return 1;
  }
  watch_for_findings(folder.filename().string());
  const auto accepted = read_accepted(folder.parent_path().parent_path() / "accepted.txt");
  if (run_files(corpus, accepted) > 0) return 1;
  const std::size_t files = corpus.inputs.size();
  Mutator mutator(std::move(corpus.inputs));
  for (long i = 0; i < runs; ++i) run(mutator.next());
  std::cout << "replay: " << files << " files and " << runs << " mutations\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: replay RUNS CORPUS_FOLDER\n";
    return 2;
  }
  // No handler for exceptions: one that leaves the target ends in std::terminate with the input
  // alive.
  return replay(std::strtol(argv[1], nullptr, 10), argv[2]);
}
