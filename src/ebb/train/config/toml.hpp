// What stands in a TOML text, with where it stands: the seam to the parser, whose headers nobody else sees.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ebb::train {

struct TomlPlace {
  std::shared_ptr<const std::string> source;  // a file, or an override
  std::uint32_t line = 0, column = 0;         // 0: the whole of it
};
std::string to_string(const TomlPlace& place);  // train.toml:12:9

struct TomlValue;
struct TomlEntry;
using TomlList = std::vector<TomlValue>;
using TomlTable = std::vector<TomlEntry>;  // in the order of the text
struct TomlMoment {};                      // a date or a time, which no key takes

struct TomlValue {
  TomlPlace place;
  std::variant<bool, std::int64_t, double, std::string, TomlList, TomlTable, TomlMoment> is;
};

struct TomlEntry {
  std::string name;
  TomlPlace place;
  TomlValue value;
};

// A whole document. Depth is limited, so that no text can exhaust the stack.
TomlTable parse_toml(std::string_view text, const std::string& name);
// A single value, as behind "="; what is none of TOML's is a text of itself: --set data.path=a.csv.
TomlValue parse_toml_value(std::string_view text, const std::string& name);

std::string shown(const TomlValue& value);        // for errors: short, on one line
std::string shown_text(std::string_view text);    // quoted, cut where it is long
std::string to_toml_text(std::string_view text);  // as a string of TOML
std::string to_toml_number(double number);

}  // namespace ebb::train
