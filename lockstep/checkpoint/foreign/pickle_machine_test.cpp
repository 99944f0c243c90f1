#include "lockstep/checkpoint/foreign/pickle_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/torch_testing.h"

namespace lockstep::checkpoint {
namespace {

using std::string_literals::operator""s;
using ::testing::HasSubstr;

const PickleGlobals& globals() {
  static const PickleGlobals made_globals{{"collections.OrderedDict", "torch.Size", "torch.device"},
                                          {"numpy.ndarray", "builtins.set"}};
  return made_globals;
}

PickleTree read(const std::string& pickle) { return read_pickle(pickle, globals(), "x.pt"); }

/// The value that these opcodes leave.
PickleTree value_of(const std::string& opcodes) { return read(opcodes + "."); }

/// Code and text of what the machine says against these bytes; empty when it takes them.
std::string fault_of(const std::string& pickle) {
  try {
    (void)read(pickle);
    return "";
  } catch (const BadData& error) {
    const Problem& problem = error.problems()[0];
    EXPECT_EQ(problem.where, "x.pt");
    EXPECT_EQ(error.exit(), Exit::bad_data);
    return problem.code + " " + problem.what + " / " + problem.fix;
  }
}

TEST(PickleMachine, NumbersOfEveryWidthAreRead) {
  EXPECT_EQ(value_of("K\xff").root().integer(), 255);
  EXPECT_EQ(value_of("M\xff\xff").root().integer(), 65535);
  EXPECT_EQ(value_of("J\xff\xff\xff\xff").root().integer(), -1);
  EXPECT_EQ(value_of("I-12\n").root().integer(), -12);
  EXPECT_EQ(value_of("L12L\n").root().integer(), 12);
  EXPECT_EQ(value_of("\x8a\x00"s).root().integer(), 0);
  EXPECT_EQ(value_of("\x8a\x02\x00\x80"s).root().integer(), -32768);
  EXPECT_EQ(value_of("\x8a\x08" + std::string(7, '\xff') + "\x7f").root().integer(), INT64_MAX);
  EXPECT_EQ(value_of("G\x3f\xd0" + std::string(6, '\0')).root().real(), 0.25);
  EXPECT_EQ(value_of("F-1.5\n").root().real(), -1.5);
  const PickleTree big = value_of("\x8a\x09" + std::string(8, '\0') + "\x01");
  EXPECT_EQ(big.root().kind(), PickleKind::big_integer);
  EXPECT_EQ(big.root().text(), "18446744073709551616");
}

TEST(PickleMachine, NoneAndBoolsAreRead) {
  EXPECT_TRUE(value_of("N").root().is(PickleKind::none));
  EXPECT_TRUE(value_of("\x88").root().boolean());
  EXPECT_FALSE(value_of("\x89").root().boolean());
  EXPECT_TRUE(value_of("I01\n").root().boolean());
  EXPECT_EQ(value_of("I00\n").root().kind(), PickleKind::boolean);
}

TEST(PickleMachine, TextsAndBytesOfEveryFormAreRead) {
  for (const std::string& form : {made::text("é"), "\x8c\x02é"s, "\x8d" + made::le(2, 8) + "é",
                                  "V\xe9\n"s, "U\x02é"s, "T" + made::le(2, 4) + "é", "S'é'\n"s}) {
    const PickleTree tree = value_of(form);
    EXPECT_EQ(tree.root().kind(), PickleKind::text) << form;
    EXPECT_EQ(tree.root().text(), "é") << form;
  }
  for (const std::string& form :
       {"C\x02\xff\x00"s, "B" + made::le(2, 4) + "\xff\x00"s, "\x8e" + made::le(2, 8) + "\xff\x00"s,
        "\x96" + made::le(2, 8) + "\xff\x00"s, "U\x02\xff\x00"s}) {
    const PickleTree tree = value_of(form);
    EXPECT_EQ(tree.root().kind(), PickleKind::bytes);
    EXPECT_EQ(tree.root().text(), "\xff\x00"s);
  }
}

TEST(PickleMachine, ContainersKeepTheirOrder) {
  const PickleTree tree = value_of(
      "(K\x01K\x02"
      "t");
  EXPECT_EQ(tree.root().kind(), PickleKind::tuple);
  ASSERT_EQ(tree.root().items().size(), 2U);
  EXPECT_EQ(tree.root().items()[1]->integer(), 2);
  EXPECT_EQ(value_of(")").root().items().size(), 0U);
  EXPECT_EQ(value_of("NN\x86").root().items().size(), 2U);
  EXPECT_EQ(value_of("(NNl").root().kind(), PickleKind::list);
  EXPECT_EQ(value_of("]Na(NNe").root().items().size(), 3U);
  EXPECT_EQ(value_of("\x8f(K\x01K\x02\x90").root().kind(), PickleKind::set);
  EXPECT_EQ(value_of("(K\x01\x91").root().kind(), PickleKind::set);
}

TEST(PickleMachine, ADictIsReadByKeyOrByPlace) {
  const PickleTree tree = value_of(made::dict({{"b", "K\x01"}, {"a", "K\x02"}, {"b", "K\x03"}}));
  ASSERT_EQ(tree.root().entries(), 3U);
  EXPECT_EQ(tree.root().entry(0).first->text(), "b");
  EXPECT_EQ(tree.root().find("a")->integer(), 2);
  EXPECT_EQ(tree.root().find("b")->integer(), 3);  // as in Python, the last counts
  EXPECT_EQ(tree.root().find("c"), nullptr);
  EXPECT_EQ(value_of("(K\x01Nd").root().entries(), 1U);
  EXPECT_EQ(value_of("}K\x01Ns").root().entries(), 1U);
}

TEST(PickleMachine, WhatIsRememberedIsTheSameValue) {
  for (const std::string& remember : {"q\x05"s, "r\x05\0\0\0"s, "p5\n"s}) {
    for (const std::string& recall : {"h\x05"s, "j\x05\0\0\0"s, "g5\n"s}) {
      const PickleTree tree = value_of("(]" + remember + recall + "t");
      EXPECT_EQ(tree.root().items()[0], tree.root().items()[1]);
    }
  }
  const PickleTree tree = value_of("(]\x94}\x94h\x01h\0t"s);
  EXPECT_EQ(tree.root().items()[1], tree.root().items()[2]);
  EXPECT_EQ(tree.root().items()[0], tree.root().items()[3]);
}

TEST(PickleMachine, AnObjectKeepsWhatItWasMadeOf) {
  const std::string made_of = made::global("collections", "OrderedDict");
  const PickleTree tree = value_of(made_of + ")R" + made::text("k") + "K\x01s}b");
  EXPECT_TRUE(tree.root().is_object_of("collections.OrderedDict"));
  EXPECT_EQ(tree.root().args()->items().size(), 0U);
  EXPECT_EQ(tree.root().find("k")->integer(), 1);
  EXPECT_EQ(tree.root().state()->kind(), PickleKind::dict);
  EXPECT_TRUE(value_of(made_of).root().is_global("collections.OrderedDict"));
  EXPECT_TRUE(value_of(made_of + ")\x81").root().is(PickleKind::object));
  EXPECT_TRUE(value_of(made_of + ")}\x92").root().is(PickleKind::object));
  const PickleTree named =
      value_of(made::text("torch") + made::text("device") + "\x93" + made::text("cpu") + "\x85R");
  EXPECT_EQ(named.root().global(), "torch.device");
  EXPECT_EQ(named.root().args()->items()[0]->text(), "cpu");
}

TEST(PickleMachine, APersistentIdIsKept) {
  const PickleTree tree = value_of(made::text("storage") + "\x85Q");
  EXPECT_EQ(tree.root().kind(), PickleKind::persistent);
  EXPECT_EQ(tree.root().args()->items()[0]->text(), "storage");
}

TEST(PickleMachine, WhatIsSkippedNamesItsClassWhateverIsDoneToIt) {
  const std::string array = made::global("numpy", "ndarray");
  for (const std::string& use :
       {""s, ")R"s, ")\x81"s, "K\x01\x85R}b"s, ")RNa"s, ")R(NNu"s, ")R(NN\x90"s, ")}\x92"s,
        ")"s + made::dict({{"a", "N"}}) + "\x92", ")R)R"s}) {
    const PickleTree tree = value_of(array + use);
    EXPECT_EQ(tree.root().kind(), PickleKind::skipped) << use;
    EXPECT_EQ(tree.root().text(), "numpy.ndarray") << use;
  }
  EXPECT_EQ(value_of(made::global("__builtin__", "set") + "]\x85R").root().text(), "builtins.set");
}

TEST(PickleMachine, EveryProtocolUpToFiveIsRead) {
  for (const char protocol : {0, 1, 2, 3, 4, 5}) {
    EXPECT_EQ(fault_of("\x80"s + protocol + "N."), "") << int{protocol};
  }
  EXPECT_EQ(fault_of("\x80\x04\x95" + made::le(2, 8) + "N."), "");
  EXPECT_THAT(fault_of("\x80\x06N."), HasSubstr("LS-5012"));
}

// Names by which a pickle runs code when Python reads it.
const std::vector<std::pair<std::string, std::string>>& evil_names() {
  static const std::vector<std::pair<std::string, std::string>> names{
      {"os", "system"},
      {"posix", "system"},
      {"nt", "system"},
      {"os", "popen"},
      {"os", "execve"},
      {"subprocess", "Popen"},
      {"subprocess", "call"},
      {"builtins", "eval"},
      {"__builtin__", "eval"},
      {"builtins", "exec"},
      {"builtins", "getattr"},
      {"builtins", "__import__"},
      {"builtins", "open"},
      {"torch", "load"},
      {"torch.hub", "load"},
      {"torch.hub", "_exec"},
      {"torch.jit", "load"},
      {"runpy", "run_path"},
      {"importlib", "reload"},
      {"pickle", "loads"},
      {"webbrowser", "open"},
      {"pty", "spawn"},
      {"shutil", "rmtree"},
      {"socket", "socket"},
      {"code", "interact"},
      {"bdb", "Bdb"},
      {"ctypes", "CDLL"},
      {"operator", "attrgetter"},
      {"functools", "partial"},
      {"numpy.testing._private.utils", "runstring"},
      {"numpy", "load"},
      {"__main__", "Model"},
      {"", "eval"},
      {"collections", "OrderedDict.__init__"},
      {"os\0", "system"},
  };
  return names;
}

/// Runs `work` in an empty folder. Nothing is left there, and nobody was started.
void expect_without_traces(const std::function<void()>& work) {
  const made::TestFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  work();
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(PickleMachine, NamesThatRunCodeAreRefusedInEveryForm) {
  const std::string command = made::text("touch evil");
  expect_without_traces([&] {
    for (const auto& [module, name] : evil_names()) {
      const std::string line = made::global(module, name);
      const std::string stacked = made::text(module) + made::text(name) + "\x93";
      for (const std::string& form :
           {line + command + "\x85R.", line + ".", line + command + "\x85\x81.",
            stacked + command + "\x85R.", line + command + "\x85}\x92.", line + ")R}b.",
            "](" + line + command + "\x85Re.", "(i" + module + "\n" + name + "\n.",
            "(" + line + command + "o."}) {
        const std::string fault = fault_of(form);
        EXPECT_THAT(fault, HasSubstr("LS-5013")) << module << "." << name;
        EXPECT_THAT(fault, HasSubstr("nothing was executed"));
      }
    }
  });
}

TEST(PickleMachine, ARefusalNamesTheGlobalAndItsPlaceAndGivesNoUnsafeAdvice) {
  const std::string fault = fault_of("\x80\x02]q\x01" + made::global("os", "system") + ".");
  EXPECT_THAT(fault, HasSubstr("byte 5 "));
  EXPECT_THAT(fault, HasSubstr("os.system"));
  EXPECT_THAT(fault, HasSubstr("safetensors"));
  EXPECT_EQ(fault.find("weights_only"), std::string::npos);
  EXPECT_EQ(fault.find("add_safe_globals"), std::string::npos);
}

TEST(PickleMachine, ANameIsPrintedWithoutControlCharactersAndNotWithoutEnd) {
  const std::string fault = fault_of(made::global("os\x1b[2J", std::string(5000, 'x')) + ".");
  EXPECT_THAT(fault, HasSubstr("os?[2J.xxx"));
  EXPECT_LT(fault.size(), 600U);
}

TEST(PickleMachine, CallsOfWhatIsNoNameAreRefused) {
  const std::string ordered = made::global("collections", "OrderedDict");
  EXPECT_THAT(fault_of(ordered + ")R)R."), HasSubstr("LS-5013"));  // a chain
  EXPECT_THAT(fault_of(made::text("os.system") + ")R."), HasSubstr("LS-5013"));
  EXPECT_THAT(fault_of("N)R."), HasSubstr("LS-5013"));
  EXPECT_THAT(fault_of("]})\x81."), HasSubstr("LS-5013"));
  EXPECT_THAT(fault_of("})Q)R."), HasSubstr("LS-5013"));
  EXPECT_THAT(fault_of("}" + made::dict({{"__setstate__", "N"}}) + "b."), HasSubstr("LS-5013"));
  EXPECT_THAT(fault_of("]Nb."), HasSubstr("LS-5013"));
  EXPECT_THAT(fault_of(ordered + "Nb."), HasSubstr("LS-5013"));  // state of the class itself
  EXPECT_THAT(fault_of(ordered + ")" + made::dict({{"a", "N"}}) + "\x92."), HasSubstr("LS-5013"));
  EXPECT_THAT(fault_of(ordered + "NR."), HasSubstr("LS-5012"));  // arguments that are no tuple
}

TEST(PickleMachine, OpcodesThatPyTorchNeverWritesAreRefused) {
  EXPECT_THAT(fault_of("\x82\x01."), HasSubstr("LS-5013"));
  EXPECT_THAT(fault_of("\x83\x01\x01."), HasSubstr("LS-5013"));
  EXPECT_THAT(fault_of("\x84\x01\x01\x01\x01."), HasSubstr("LS-5013"));
  EXPECT_THAT(fault_of("(icollections\nOrderedDict\n."), HasSubstr("LS-5013"));
  EXPECT_THAT(fault_of("(" + made::global("collections", "OrderedDict") + "o."),
              HasSubstr("LS-5013"));
  EXPECT_THAT(fault_of("P0\n."), HasSubstr("LS-5012"));
  EXPECT_THAT(fault_of("\x97."), HasSubstr("LS-5012"));
  EXPECT_THAT(fault_of("N\x98."), HasSubstr("LS-5012"));
  for (const char opcode : {'\0', '\x01', '#', 'A', 'Z', '\x7f', '\x99', '\xff'}) {
    EXPECT_THAT(fault_of("N"s + opcode + "."), HasSubstr("does not exist"));
  }
}

TEST(PickleMachine, DamagedPicklesAreRefused) {
  for (const std::string& bad :
       {""s,         "N"s,        "."s,      "NN."s,     "(N."s,    "N.N"s,        "N.."s,
        "t."s,       "l."s,       "d."s,     "(Nd."s,    "u."s,     "e."s,         "(NNu."s,
        "(Ne."s,     "}(Nu."s,    "N(NNu."s, "](NNu."s,  "}Na."s,   ")Na."s,       "}Ns."s,
        "]NNs."s,    "](N\x90."s, "R."s,     "NR."s,     "\x81."s,  "b."s,         "Nb."s,
        "Q."s,       "0."s,       "1."s,     "2."s,      "a."s,     "s."s,         "\x85."s,
        "N\x86."s,   "NN\x87."s,  "\x93."s,  "NN\x93."s, "h\0."s,   "j\0\0\0\0."s, "g0\n."s,
        "gx\n."s,    "g-1\n."s,   "q\0."s,   "\x94."s,   "p-1\n."s, "I\n."s,       "I1x\n."s,
        "L\n."s,     "L-L\n."s,   "F\n."s,   "Fx\n."s,   "Sx\n."s,  "S'\n."s,      "S'\\x00'\n."s,
        "V\\u12\n."s}) {
    EXPECT_THAT(fault_of(bad), HasSubstr("LS-5012")) << bad;
  }
}

TEST(PickleMachine, MarksGuardWhatLiesBelowThem) {
  EXPECT_THAT(fault_of("N(\x85."), HasSubstr("empty stack"));
  EXPECT_THAT(fault_of("](a."), HasSubstr("empty stack"));
  EXPECT_EQ(fault_of("N(NN1."), "");
  EXPECT_EQ(fault_of("N(0."), "");  // takes the mark itself
}

TEST(PickleMachine, EveryTruncationIsFound) {
  const std::string whole = made::pickle(made::ordered_dict(
      {{"w", made::tuple({made::text("é"), "\x8a\x03\x01\x02\x03", "G" + made::le(0, 8), "C\x02zz",
                          "B" + made::le(2, 4) + "zz", made::list({"N"}), "V\\u20ac\n"})}}));
  EXPECT_EQ(fault_of(whole), "");
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_THAT(fault_of(whole.substr(0, bytes)), HasSubstr("LS-5012")) << bytes;
  }
}

TEST(PickleMachine, LengthsBeyondTheFileAreRefusedWithoutMemory) {
  const std::string huge(8, '\xff');
  for (const std::string& opcode : {"\x8d"s, "\x8e"s, "\x96"s, "\x95"s}) {
    EXPECT_THAT(fault_of(opcode + huge + "."), HasSubstr("cut"));
    EXPECT_THAT(fault_of(opcode + std::string(7, '\xff') + "\x7f."), HasSubstr("cut"));
  }
  for (const std::string& opcode : {"X"s, "T"s, "B"s}) {
    EXPECT_THAT(fault_of(opcode + std::string(4, '\xff') + "."), HasSubstr("cut"));
  }
  EXPECT_THAT(fault_of("\x8b\xff\xff\xff\xff."), HasSubstr("LS-5012"));  // a negative length
  EXPECT_THAT(fault_of("\x8b\xff\xff\xff\x7f."), HasSubstr("LS-5012"));
  EXPECT_THAT(fault_of("\x8b" + made::le(2000, 4) + std::string(2000, '\x7f') + "."),
              HasSubstr("a number of 2000 bytes"));
  EXPECT_THAT(fault_of("L" + std::string(5000, '9') + "L\n."), HasSubstr("LS-5012"));
}

TEST(PickleMachine, TextsMustBeUtf8) {
  EXPECT_THAT(fault_of(made::text("\xff\xfe") + "."), HasSubstr("UTF-8"));
  EXPECT_THAT(fault_of("\x8c\x01\xff."), HasSubstr("UTF-8"));
}

TEST(PickleMachine, NestingIsLimitedAndNeverRecursesInTheMachine) {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, ']') + std::string(levels - 1, 'a') + ".";
  };
  EXPECT_EQ(fault_of(nested(kMaxPickleDepth)), "");
  EXPECT_THAT(fault_of(nested(kMaxPickleDepth + 1)), HasSubstr("nested deeper"));
  EXPECT_THAT(fault_of("N" + std::string(1'000'000, '\x85') + "."), HasSubstr("LS-5012"));
  std::string objects = ")";
  for (int i = 0; i < 5000; ++i) objects += "\x85" + made::global("torch", "Size") + "2\x30h";
  EXPECT_THAT(fault_of(objects), HasSubstr("LS-5012"));
}

TEST(PickleMachine, DepthCountsWhatIsShared) {
  // Two halves, each allowed, one below the other through the memo.
  const std::string half = std::string(300, ']') + std::string(299, 'a');
  EXPECT_EQ(fault_of("(" + half + "q\x01" + half + "t."), "");
  EXPECT_THAT(fault_of("]" + half + "q\x01" + "0" + std::string(300, ']') + "h\x01" +
                       std::string(300, 'a') + "a."),
              HasSubstr("nested deeper"));
}

TEST(PickleMachine, AValueThatHoldsItselfIsRefused) {
  EXPECT_THAT(fault_of("]q\x01h\x01"
                       "a."),
              HasSubstr("holds itself"));
  EXPECT_THAT(fault_of("]q\x01}q\x02" + made::text("k") + "h\x01sa."), HasSubstr("holds itself"));
  EXPECT_THAT(fault_of(made::global("collections", "OrderedDict") + ")Rq\x01h\x01"
                                                                    "b."),
              HasSubstr("holds itself"));
}

TEST(PickleMachine, DoublingValuesThroughTheMemoIsRefused) {
  std::string lists = "]q" + made::le(0, 1);
  for (int i = 1; i < 60; ++i) {
    lists += "](h" + made::le(i - 1, 1) + "h" + made::le(i - 1, 1) + "eq" + made::le(i, 1);
  }
  const std::string pickle = "(" + lists + "t.";
  EXPECT_THAT(fault_of(pickle), HasSubstr("repeat each other"));
  std::string tuples = made::text("x");
  for (int i = 0; i < 60; ++i) tuples += "2\x86";
  EXPECT_THAT(fault_of(tuples + "."), HasSubstr("repeat each other"));
}

TEST(PickleMachine, MoreValuesThanAPicklerWritesAreRefused) {
  EXPECT_THAT(fault_of(std::string(100'000, ']') + "."), HasSubstr("more values"));
  EXPECT_THAT(fault_of(std::string(100'000, '(') + "."), HasSubstr("LS-5012"));
  EXPECT_THAT(fault_of("N" + std::string(100'000, '2') + "."), HasSubstr("LS-5012"));
}

TEST(PickleMachine, AnyByteInPlaceOfAnotherIsTakenOrRefused) {
  const std::string whole = made::pickle(made::ordered_dict(
      {{"w", made::tuple({"K\x01", made::list({"N", "\x88"})})}, {"v", "]q\x01h\x01\x86"}}));
  ASSERT_EQ(fault_of(whole), "");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = whole;
      changed[at] = static_cast<char>(byte);
      const std::string fault = fault_of(changed);
      EXPECT_TRUE(fault.empty() || fault.starts_with("LS-501")) << at << " " << byte;
    }
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
