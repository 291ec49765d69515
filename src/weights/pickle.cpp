#include "weights/pickle.h"

#include "util/error.h"
#include "weights/byte_cursor.h"
#include "weights/quote_name.h"

#include <unordered_map>

namespace sam3 {

namespace {

using Kind = PickleValue::Kind;

// A value can come of a single byte, so their number is limited as well as the bytes.
constexpr size_t kMaxBytes = size_t{64} << 20;
constexpr size_t kMaxValues = size_t{1} << 21;
constexpr size_t kMaxMarks = 1000;

// The stack machine that a pickle is a program for. Instructions are named in Python's pickletools.
class Machine {
public:
    Machine(const uint8_t* data, size_t size, const std::string& path, bool (*is_allowed)(std::string_view))
        : cursor_(data, size, path, "pickle inside it"), is_allowed_(is_allowed) {}

    Pickle run() {
        if (cursor_.size() > kMaxBytes)
            fail(cursor_.path(), ": the pickle inside it has ", cursor_.size(), " bytes, expected at most ", kMaxBytes);
        for (;;) {
            at_ = cursor_.position();
            const auto code = cursor_.read<uint8_t>();
            if (code == '.') break;  // STOP
            if (!push_scalar(code) && !push_text(code) && !use_memo(code) && !build_container(code) &&
                !build_object(code))
                refuse_code(code);
        }
        pickle_.root = pop();
        return std::move(pickle_);
    }

private:
    [[noreturn]] void damaged(std::string_view what) const {
        fail(cursor_.path(), ": the pickle inside it is damaged: ", what, " at byte ", at_, " of ", cursor_.size());
    }

    [[noreturn]] void refuse_code(uint8_t code) const {
        fail(cursor_.path(), ": the pickle inside it has the instruction ", int{code}, " at byte ", at_,
             ", which PyTorch does not write for weights: save the model's state_dict() again with torch.save");
    }

    uint32_t add(Kind kind, int64_t integer = 0) {
        if (pickle_.values.size() >= kMaxValues)
            fail(cursor_.path(), ": the pickle inside it has more than ", kMaxValues,
                 " values: a state dict needs far fewer");
        PickleValue value;
        value.kind = kind;
        value.integer = integer;
        pickle_.values.push_back(std::move(value));
        return static_cast<uint32_t>(pickle_.values.size() - 1);
    }

    void push(uint32_t number) { stack_.push_back(number); }
    void push_new(Kind kind, int64_t integer = 0) { push(add(kind, integer)); }
    void push_items(Kind kind, std::vector<uint32_t> items) {
        const uint32_t number = add(kind);
        pickle_.values[number].items = std::move(items);
        push(number);
    }

    size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }
    uint32_t top() const {
        if (stack_.size() <= bottom()) damaged("it takes from an empty stack");
        return stack_.back();
    }
    uint32_t pop() {
        const uint32_t number = top();
        stack_.pop_back();
        return number;
    }
    std::vector<uint32_t> pop_many(size_t count) {
        if (stack_.size() < bottom() + count) damaged("it takes from an empty stack");
        std::vector<uint32_t> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
        stack_.resize(stack_.size() - count);
        return items;
    }
    std::vector<uint32_t> pop_to_mark() {
        if (marks_.empty()) damaged("it goes back to a mark that was never set");
        std::vector<uint32_t> items = pop_many(stack_.size() - marks_.back());
        marks_.pop_back();
        return items;
    }

    PickleValue& top_of_kind(Kind kind, std::string_view expected) {
        PickleValue& value = pickle_.values[top()];
        if (value.kind != kind) damaged(expected);
        return value;
    }

    bool push_scalar(uint8_t code) {
        switch (code) {
            case 0x80:  // PROTO
                if (const auto protocol = cursor_.read<uint8_t>(); protocol < 2 || protocol > 5)
                    fail(cursor_.path(), ": expected a pickle of protocol 2 to 5, found ", int{protocol});
                return true;
            case 0x95: cursor_.read<uint64_t>(); return true;    // FRAME: a hint for readers that buffer
            case 'N': push_new(Kind::opaque); return true;       // NONE
            case 0x88: push_new(Kind::integer, 1); return true;  // NEWTRUE
            case 0x89: push_new(Kind::integer, 0); return true;  // NEWFALSE
            case 'K': push_new(Kind::integer, cursor_.read<uint8_t>()); return true;   // BININT1
            case 'M': push_new(Kind::integer, cursor_.read<uint16_t>()); return true;  // BININT2
            case 'J': push_new(Kind::integer, cursor_.read<int32_t>()); return true;   // BININT
            case 0x8a: push_long(cursor_.read<uint8_t>()); return true;                // LONG1
            case 0x8b: push_long(cursor_.read<uint32_t>()); return true;               // LONG4
            case 'G':                                                                  // BINFLOAT
                cursor_.read<uint64_t>();
                push_new(Kind::opaque);
                return true;
            default: return false;
        }
    }

    // Little-endian two's complement of any length; beyond 64 bits it cannot be a size.
    void push_long(uint64_t bytes) {
        const uint8_t* start = cursor_.take(bytes);
        if (bytes > sizeof(int64_t)) return push_new(Kind::opaque);
        uint64_t bits = bytes > 0 && (start[bytes - 1] & 0x80U) != 0 ? ~uint64_t{0} : 0;
        std::memcpy(&bits, start, bytes);
        push_new(Kind::integer, static_cast<int64_t>(bits));
    }

    bool push_text(uint8_t code) {
        switch (code) {
            case 'X': keep_text(cursor_.read<uint32_t>()); return true;    // BINUNICODE
            case 0x8c: keep_text(cursor_.read<uint8_t>()); return true;    // SHORT_BINUNICODE
            case 0x8d: keep_text(cursor_.read<uint64_t>()); return true;   // BINUNICODE8
            case 'B': skip_bytes(cursor_.read<uint32_t>()); return true;   // BINBYTES
            case 'C': skip_bytes(cursor_.read<uint8_t>()); return true;    // SHORT_BINBYTES
            case 0x8e:                                                     // BINBYTES8
            case 0x96: skip_bytes(cursor_.read<uint64_t>()); return true;  // BYTEARRAY8
            default: return false;
        }
    }

    void keep_text(uint64_t bytes) {
        const std::string_view text = cursor_.take_text(bytes);
        push_new(Kind::text);
        pickle_.values.back().text = text;
    }
    void skip_bytes(uint64_t bytes) {
        cursor_.take(bytes);
        push_new(Kind::opaque);
    }

    bool use_memo(uint8_t code) {
        switch (code) {
            case 'q': memo_[cursor_.read<uint8_t>()] = top(); break;               // BINPUT
            case 'r': memo_[cursor_.read<uint32_t>()] = top(); break;              // LONG_BINPUT
            case 0x94: memo_[static_cast<uint32_t>(memo_.size())] = top(); break;  // MEMOIZE
            case 'h': push(recall(cursor_.read<uint8_t>())); break;                // BINGET
            case 'j': push(recall(cursor_.read<uint32_t>())); break;               // LONG_BINGET
            default: return false;
        }
        if (memo_.size() > kMaxValues) damaged("it notes too many values");
        return true;
    }

    uint32_t recall(uint32_t key) const {
        const auto found = memo_.find(key);
        if (found == memo_.end()) damaged("it recalls a value that was never noted");
        return found->second;
    }

    bool build_container(uint8_t code) {
        switch (code) {
            case '(':  // MARK
                if (marks_.size() >= kMaxMarks) damaged("it is nested too deep");
                marks_.push_back(stack_.size());
                return true;
            case ')': push_new(Kind::tuple); return true;  // EMPTY_TUPLE
            case 0x85:
            case 0x86:
            case 0x87: push_items(Kind::tuple, pop_many(code - 0x84U)); return true;  // TUPLE1 to TUPLE3
            case 't': push_items(Kind::tuple, pop_to_mark()); return true;            // TUPLE
            case ']': push_new(Kind::list); return true;                              // EMPTY_LIST
            case 'a': extend(Kind::list, pop_many(1)); return true;                   // APPEND
            case 'e': extend(Kind::list, pop_to_mark()); return true;                 // APPENDS
            case '}': push_new(Kind::dict); return true;                              // EMPTY_DICT
            case 's': extend(Kind::dict, pop_many(2)); return true;                   // SETITEM
            case 'u': extend(Kind::dict, pop_to_mark()); return true;                 // SETITEMS
            case 0x8f: push_new(Kind::opaque); return true;                           // EMPTY_SET
            case 0x90:                                                                // ADDITEMS
                pop_to_mark();
                top_of_kind(Kind::opaque, "it adds to something that is no set");
                return true;
            case 0x91:  // FROZENSET
                pop_to_mark();
                push_new(Kind::opaque);
                return true;
            default: return false;
        }
    }

    void extend(Kind kind, const std::vector<uint32_t>& items) {
        PickleValue& target = top_of_kind(kind, "it fills something that is no list or dict");
        if (kind == Kind::dict && items.size() % 2 != 0) damaged("it has a key without a value");
        target.items.insert(target.items.end(), items.begin(), items.end());
    }

    bool build_object(uint8_t code) {
        switch (code) {
            case 'c': {  // GLOBAL
                const std::string_view module = take_line();
                push_global(module, take_line());
                return true;
            }
            case 0x93: {  // STACK_GLOBAL
                const std::vector<uint32_t> names = pop_many(2);
                const PickleValue &module = pickle_.at(names[0]), &name = pickle_.at(names[1]);
                if (module.kind != Kind::text || name.kind != Kind::text) damaged("a global has no name");
                push_global(module.text, name.text);
                return true;
            }
            case 'R':  // REDUCE
            case 0x81:
                call();  // NEWOBJ
                return true;
            case 'b':  // BUILD: the state of an object, such as a state dict's _metadata, describes no tensor
                pop();
                if (const Kind kind = pickle_.at(top()).kind; kind != Kind::dict && kind != Kind::call)
                    damaged("it sets the state of something that has none");
                return true;
            case 'Q': push_items(Kind::persistent, pop_many(1)); return true;  // BINPERSID
            default: return false;
        }
    }

    std::string_view take_line() {
        constexpr uint64_t kMaxLine = 1024;
        const char* start = reinterpret_cast<const char*>(cursor_.take(0));
        const std::string_view rest(start, std::min(cursor_.left(), kMaxLine));
        const size_t end = rest.find('\n');
        if (end == rest.npos) damaged("a name has no end");
        cursor_.take(end + 1);
        return rest.substr(0, end);
    }

    void push_global(std::string_view module, std::string_view name) {
        const std::string full = str(module, ".", name);
        if (!is_allowed_(full))
            fail(cursor_.path(), ": the pickle inside it asks for the Python object ", quote_name(full),
                 ", which no state dict needs; nothing was run. If you trust the file, load it in PyTorch and save the "
                 "model's state_dict() with torch.save");
        push_new(Kind::global);
        pickle_.values.back().text = full;
    }

    void call() {
        std::vector<uint32_t> parts = pop_many(2);
        const PickleValue &function = pickle_.at(parts[0]), &arguments = pickle_.at(parts[1]);
        if (function.kind != Kind::global || arguments.kind != Kind::tuple) damaged("it calls what cannot be called");
        if (function.text != "collections.OrderedDict") return push_items(Kind::call, std::move(parts));
        if (!arguments.items.empty()) damaged("an OrderedDict is not built empty, as Python 3 does");
        push_new(Kind::dict);
    }

    ByteCursor cursor_;
    bool (*is_allowed_)(std::string_view);
    uint64_t at_ = 0;  // of the instruction
    Pickle pickle_;
    std::vector<uint32_t> stack_;
    std::vector<size_t> marks_;  // heights of the stack
    std::unordered_map<uint32_t, uint32_t> memo_;
};

}  // namespace

Pickle parse_pickle(const uint8_t* data, size_t size, const std::string& path, bool (*is_allowed)(std::string_view)) {
    return Machine(data, size, path, is_allowed).run();
}

}  // namespace sam3
