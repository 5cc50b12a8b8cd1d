// Values of a config's types, from TOML and back. Each Codec says what it expects, reads a value or
// refuses it with its place, and writes what it reads back to the same.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ebb/train/config/names.hpp"
#include "ebb/train/config/toml.hpp"

namespace ebb::train {

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above = false, below = false;  // low and high themselves are not in it
  std::size_t length = 0;             // of a list; 0: any
};

// train.toml:12:9: train.batch is "abc", expected a whole number of 1 or more
[[noreturn]] void refuse(const TomlValue& value, const std::string& name,
                         const std::string& expected);

// "one of mlp, cnn, … or layers", and the place of a word among them; a near one is named.
std::string expected_word(Words words);
std::size_t read_word(const TomlValue& value, const std::string& name, Words words);

template <class T>
struct Codec {  // enumerations
  static std::string expected(const Range&) { return expected_word(names_of<T>()); }
  static T read(const TomlValue& value, const std::string& name, const Range&) {
    return static_cast<T>(read_word(value, name, names_of<T>()));
  }
  static std::optional<std::string> write(const T& e) { return to_toml_text(name_of(e)); }
};

#define EBB_CODEC(Type)                                                                    \
  template <>                                                                              \
  struct Codec<Type> {                                                                     \
    static std::string expected(const Range& range);                                       \
    static Type read(const TomlValue& value, const std::string& name, const Range& range); \
    static std::optional<std::string> write(const Type& value);                            \
  };
EBB_CODEC(bool)
EBB_CODEC(std::int64_t)
EBB_CODEC(double)
EBB_CODEC(std::string)
EBB_CODEC(std::vector<std::int64_t>)
EBB_CODEC(std::vector<std::string>)  // one text is a list of one
EBB_CODEC(Period)
EBB_CODEC(BudgetConfig)
EBB_CODEC(InMemory)
#undef EBB_CODEC

template <class T>
struct Codec<std::optional<T>> {
  static std::string expected(const Range& range) { return Codec<T>::expected(range); }
  static std::optional<T> read(const TomlValue& value, const std::string& name,
                               const Range& range) {
    return Codec<T>::read(value, name, range);
  }
  static std::optional<std::string> write(const std::optional<T>& value) {
    return value ? Codec<T>::write(*value) : std::nullopt;
  }
};

}  // namespace ebb::train
