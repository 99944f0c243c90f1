#include "lockstep/checkpoint/foreign/pickle_machine.h"

#include <array>
#include <bit>
#include <map>
#include <unordered_map>
#include <utility>

#include "lockstep/checkpoint/foreign/pickle_stack.h"
#include "lockstep/checkpoint/foreign/pickle_text.h"
#include "lockstep/checkpoint/format/utf8.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::uint64_t kMaxNumberBytes = 1024;
constexpr unsigned kMaxProtocol = 5;

const std::map<std::string_view, std::string_view>& modules_of_python_2() {
  static const std::map<std::string_view, std::string_view> modules{{"__builtin__", "builtins"},
                                                                    {"copy_reg", "copyreg"}};
  return modules;
}

}  // namespace

PickleGlobals operator+(PickleGlobals a, const PickleGlobals& b) {
  a.allowed.insert(b.allowed.begin(), b.allowed.end());
  a.skipped.insert(b.skipped.begin(), b.skipped.end());
  return a;
}

/// One method an opcode, or one for several that differ in the width of a length.
class PickleMachine : private PickleStack {
 public:
  PickleMachine(std::string pickle, const PickleGlobals& globals, const std::string& where)
      : PickleStack(std::move(pickle), where),
        globals_(globals),
        none_(make(PickleKind::none)),
        true_(make_bool(true)),
        false_(make_bool(false)),
        empty_tuple_(make(PickleKind::tuple)) {}

  PickleTree run();

 private:
  using Handler = void (PickleMachine::*)();
  using Kind = PickleKind;
  using Table = std::array<Handler, 256>;
  static constexpr Table handlers();
  static constexpr void add_plain(Table& table);
  static constexpr void add_containers(Table& table);
  static constexpr void add_objects(Table& table);

  [[noreturn]] void fail(const std::string& what) { in().fail(what); }
  [[noreturn]] void refuse(const std::string& what) { in().refuse(what); }
  std::string_view take(std::uint64_t count) { return in().take(count); }
  std::string_view line() { return in().line(); }
  template <int Width>
  std::uint64_t number() {
    return in().number<Width>();
  }

  // Opcodes: frame.
  void proto() {
    if (number<1>() > kMaxProtocol) fail("a protocol above 5");
  }
  void frame() {
    const auto length = number<8>();
    if (length > in().left()) fail("cut, a frame that ends after the file");
  }
  void stop() { ended_ = true; }

  // Opcodes: numbers.
  void none() { push(none_); }
  void yes() { push(true_); }
  void no() { push(false_); }
  void integer_4() { push_integer(static_cast<std::int32_t>(number<4>())); }
  void integer_1() { push_integer(static_cast<std::int64_t>(number<1>())); }
  void integer_2() { push_integer(static_cast<std::int64_t>(number<2>())); }
  void push_digits(std::string_view digits) {
    if (const auto number = parse_integer(digits)) return push_integer(*number);
    const std::size_t sign = digits.starts_with('-') ? 1 : 0;
    if (digits.size() <= sign || digits.size() > kMaxNumberBytes ||
        digits.find_first_not_of("0123456789", sign) != std::string_view::npos) {
      fail("not a whole number");
    }
    push_text(Kind::big_integer, digits);
  }
  void integer_line() {
    const std::string_view digits = line();
    if (digits == "00") return push(false_);
    if (digits == "01") return push(true_);
    push_digits(digits);
  }
  void long_line() {
    std::string_view digits = line();
    if (digits.ends_with('L')) digits.remove_suffix(1);
    push_digits(digits);
  }
  template <int Width>
  void long_bytes() {
    const auto length = number<Width>();
    if (length > kMaxNumberBytes) fail("a number of " + std::to_string(length) + " bytes");
    const std::string_view raw = take(length);
    std::string digits = decimal_of(raw);
    if (const auto small = parse_integer(digits)) return push_integer(*small);
    push_text(Kind::big_integer, keep(std::move(digits)));
  }
  void real() {  // the only big-endian field
    push_real(std::bit_cast<double>(__builtin_bswap64(number<8>())));
  }
  void real_line() {
    const auto number = parse_real(line());
    if (!number) fail("not a number");
    push_real(*number);
  }

  // Opcodes: texts and bytes.
  template <int Width>
  void text() {
    const auto length = number<Width>();
    push_text(Kind::text, take(length));
  }
  template <int Width>
  void bytes() {
    const auto length = number<Width>();
    push_text(Kind::bytes, take(length));
  }
  template <int Width>
  void text_of_python_2() {
    const std::string_view raw = take(number<Width>());
    push_text(is_utf8(raw) ? Kind::text : Kind::bytes, raw);
  }
  void text_line() {
    auto text = unescape_unicode(line());
    if (!text) fail("a broken escape in a text");
    push_text(Kind::text, keep(std::move(*text)));
  }
  void quoted_line() {
    std::string_view raw = line();
    const bool quoted =
        raw.size() >= 2 && raw.front() == raw.back() && (raw.front() == '\'' || raw.front() == '"');
    if (!quoted || raw.find('\\') != std::string_view::npos)
      fail("a text with escapes of Python 2");
    raw = raw.substr(1, raw.size() - 2);
    push_text(is_utf8(raw) ? Kind::text : Kind::bytes, raw);
  }

  // Opcodes: stack and memo.
  void set_mark() { mark(); }
  void pop_top() { pop_one(); }
  void pop_mark() { pop_to_mark(); }
  void duplicate() { push(top()); }
  std::uint64_t key_line() {
    const auto key = parse_integer(line());
    if (!key || *key < 0) fail("not the number of a remembered value");
    return static_cast<std::uint64_t>(*key);
  }
  void put_line() { put(key_line()); }
  void get_line() { get(key_line()); }
  template <int Width>
  void put_number() {
    put(number<Width>());
  }
  template <int Width>
  void get_number() {
    get(number<Width>());
  }
  void memoize() { put_next(); }

  // Opcodes: containers.
  void empty_tuple() { push(empty_tuple_); }
  void empty_list() { push(make(Kind::list)); }
  void empty_dict() { push(make(Kind::dict)); }
  void empty_set() { push(make(Kind::set)); }
  template <int Count>
  void tuple_of() {
    std::vector<const PickleValue*> items(Count);
    for (int i = Count; i-- > 0;) items[static_cast<std::size_t>(i)] = pop();
    push_items(Kind::tuple, std::move(items));
  }
  void tuple() { push_items(Kind::tuple, pop_to_mark()); }
  void list() { push_items(Kind::list, pop_to_mark()); }
  void frozen_set() { push_items(Kind::set, pop_to_mark()); }
  void dict() {
    auto items = pop_to_mark();
    if (items.size() % 2 != 0) fail("a key without a value");
    push_items(Kind::dict, std::move(items));
  }

  /// Adds to a container, or to an object that behaves like one.
  void extend(const std::vector<const PickleValue*>& items, Kind kind) {
    PickleValue* target = top();
    if (target->is(Kind::skipped)) return;
    const bool as_dict = kind == Kind::dict && target->is(Kind::object);
    if (!target->is(kind) && !as_dict) {
      fail("adds to " + std::string(to_text(target->kind())) + " as if it were " +
           std::string(to_text(kind)));
    }
    if (kind == Kind::dict && items.size() % 2 != 0) fail("a key without a value");
    add(*target, items);
  }
  void append() {
    const PickleValue* item = pop();
    extend({item}, Kind::list);
  }
  void set_item() {
    const PickleValue* value = pop();
    const PickleValue* key = pop();
    extend({key, value}, Kind::dict);
  }
  void append_all() { extend(pop_to_mark(), Kind::list); }
  void set_all() { extend(pop_to_mark(), Kind::dict); }
  void add_all() { extend(pop_to_mark(), Kind::set); }

  // Opcodes: names and objects.
  void push_global(std::string_view module, std::string_view name) {
    const auto renamed = modules_of_python_2().find(module);
    if (renamed != modules_of_python_2().end()) module = renamed->second;
    const std::string full = std::string(module) + "." + std::string(name);
    const auto allowed = globals_.allowed.find(full);
    if (allowed != globals_.allowed.end()) return push_name(Kind::global, *allowed);
    const auto skipped = globals_.skipped.find(full);
    if (skipped != globals_.skipped.end()) return push_name(Kind::skipped, *skipped);
    refuse("asks for " + printable(full));
  }
  void push_name(Kind kind, const std::string& name) {
    auto [known, is_new] = names_.try_emplace(&name, nullptr);
    if (is_new) {
      push_text(kind, keep(name));
      known->second = top();
    } else {
      push(known->second);
    }
  }
  static std::string printable(const std::string& name) {
    constexpr std::size_t kMost = 120;
    std::string text = name.substr(0, kMost);
    for (char& c : text) {
      if (c < ' ' || c > '~') c = '?';
    }
    return name.size() > kMost ? text + "..." : text;
  }
  void global_lines() {
    const std::string_view module = line();
    push_global(module, line());
  }
  void global_from_stack() {
    const PickleValue* name = pop();
    const PickleValue* module = pop();
    if (!name->is(Kind::text) || !module->is(Kind::text)) fail("a global without a name");
    push_global(module->text(), name->text());
  }
  void push_made(PickleValue* made_by, const PickleValue* args) {
    if (made_by->is(Kind::skipped)) return push(made_by);
    if (!made_by->is(Kind::global)) {
      refuse("calls " + std::string(to_text(made_by->kind())));
    }
    if (!args->is(Kind::tuple)) fail("an object made of " + std::string(to_text(args->kind())));
    push_object(Kind::object, made_by->text(), args);
  }
  void reduce() {
    const PickleValue* args = pop();
    push_made(pop(), args);
  }
  void new_object_with_names() {
    const PickleValue* named = pop();
    const PickleValue* args = pop();
    PickleValue* made_by = pop();
    if (!made_by->is(Kind::skipped) && (!named->is(Kind::dict) || named->entries() > 0)) {
      refuse("makes an object with named arguments");
    }
    push_made(made_by, args);
  }
  void build() {
    const PickleValue* state = pop();
    PickleValue* object = top();
    if (object->is(Kind::skipped)) return;
    if (!object->is(Kind::object))
      refuse("sets the state of " + std::string(to_text(object->kind())));
    set_state(*object, state);
  }
  void persistent() { push_object(Kind::persistent, {}, pop()); }
  void persistent_line() { fail("a persistent id in text form, which PyTorch does not write"); }
  void instance() {
    const std::string_view module = line();
    refuse("makes an instance of " + printable(std::string(module) + "." + std::string(line())) +
           " by an opcode that PyTorch does not write");
  }
  void instance_from_stack() {
    refuse("makes an instance by an opcode that PyTorch does not write");
  }
  void extension() { refuse("asks for a name in a registry of the program that wrote it"); }
  void outside_buffer() { fail("a buffer that lies outside the file"); }

  const PickleGlobals& globals_;
  std::unordered_map<const std::string*, PickleValue*> names_;
  PickleValue* none_;
  PickleValue* true_;
  PickleValue* false_;
  PickleValue* empty_tuple_;
  bool ended_ = false;
};

constexpr void PickleMachine::add_plain(Table& table) {
  using M = PickleMachine;
  table['I'] = &M::integer_line;
  table['J'] = &M::integer_4;
  table['K'] = &M::integer_1;
  table['M'] = &M::integer_2;
  table['L'] = &M::long_line;
  table[0x8a] = &M::long_bytes<1>;
  table[0x8b] = &M::long_bytes<4>;
  table['F'] = &M::real_line;
  table['G'] = &M::real;
  table['N'] = &M::none;
  table[0x88] = &M::yes;
  table[0x89] = &M::no;
  table['S'] = &M::quoted_line;
  table['T'] = &M::text_of_python_2<4>;
  table['U'] = &M::text_of_python_2<1>;
  table['V'] = &M::text_line;
  table['X'] = &M::text<4>;
  table[0x8c] = &M::text<1>;
  table[0x8d] = &M::text<8>;
  table['B'] = &M::bytes<4>;
  table['C'] = &M::bytes<1>;
  table[0x8e] = &M::bytes<8>;
  table[0x96] = &M::bytes<8>;  // a bytearray
}

constexpr void PickleMachine::add_containers(Table& table) {
  using M = PickleMachine;
  table[')'] = &M::empty_tuple;
  table['t'] = &M::tuple;
  table[0x85] = &M::tuple_of<1>;
  table[0x86] = &M::tuple_of<2>;
  table[0x87] = &M::tuple_of<3>;
  table[']'] = &M::empty_list;
  table['l'] = &M::list;
  table['a'] = &M::append;
  table['e'] = &M::append_all;
  table['}'] = &M::empty_dict;
  table['d'] = &M::dict;
  table['s'] = &M::set_item;
  table['u'] = &M::set_all;
  table[0x8f] = &M::empty_set;
  table[0x90] = &M::add_all;
  table[0x91] = &M::frozen_set;
  table['('] = &M::set_mark;
  table['0'] = &M::pop_top;
  table['1'] = &M::pop_mark;
  table['2'] = &M::duplicate;
  table['p'] = &M::put_line;
  table['q'] = &M::put_number<1>;
  table['r'] = &M::put_number<4>;
  table['g'] = &M::get_line;
  table['h'] = &M::get_number<1>;
  table['j'] = &M::get_number<4>;
  table[0x94] = &M::memoize;
}

constexpr void PickleMachine::add_objects(Table& table) {
  using M = PickleMachine;
  table[0x80] = &M::proto;
  table[0x95] = &M::frame;
  table['.'] = &M::stop;
  table['c'] = &M::global_lines;
  table[0x93] = &M::global_from_stack;
  table['R'] = &M::reduce;
  table[0x81] = &M::reduce;  // of a class: the same here
  table[0x92] = &M::new_object_with_names;
  table['b'] = &M::build;
  table['Q'] = &M::persistent;
  table['P'] = &M::persistent_line;
  table['i'] = &M::instance;
  table['o'] = &M::instance_from_stack;
  table[0x82] = table[0x83] = table[0x84] = &M::extension;
  table[0x97] = table[0x98] = &M::outside_buffer;
}

constexpr PickleMachine::Table PickleMachine::handlers() {
  Table table{};
  add_plain(table);
  add_containers(table);
  add_objects(table);
  return table;
}

PickleTree PickleMachine::run() {
  static constexpr Table kTable = handlers();
  if (in().size() > kMaxPickleBytes)
    fail("larger than " + std::to_string(kMaxPickleBytes) + " bytes");
  while (!ended_) {
    const unsigned char opcode = in().opcode();
    const Handler handler = kTable[opcode];
    if (handler == nullptr) fail("opcode " + std::to_string(opcode) + " does not exist");
    (this->*handler)();
  }
  return finish();
}

PickleTree read_pickle(std::string pickle, const PickleGlobals& globals, const std::string& where) {
  return PickleMachine(std::move(pickle), globals, where).run();
}

}  // namespace lockstep::checkpoint
