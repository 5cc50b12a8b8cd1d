// Structs that list their fields with each(f) as text: name=value for a command line, one flat
// object of JSON for a pipe.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ebb::zoo {

template <class T>
std::string field_text(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "1" : "0";
  } else if constexpr (std::is_floating_point_v<T>) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
  } else {
    return std::to_string(value);
  }
}

template <class T>
void read_field(T& value, const std::string& text) {
  if constexpr (std::is_same_v<T, std::string>) {
    value = text;
  } else if constexpr (std::is_same_v<T, bool>) {
    value = text == "1";
  } else if constexpr (std::is_floating_point_v<T>) {
    value = std::strtod(text.c_str(), nullptr);
  } else {
    value = static_cast<T>(std::strtoull(text.c_str(), nullptr, 10));
  }
}

template <class Struct>
std::vector<std::string> to_arguments(Struct s) {
  std::vector<std::string> all;
  s.each([&](const char* name, auto& value) {
    all.push_back(std::string(name) + "=" + field_text(value));
  });
  return all;
}

template <class Struct>
Struct from_arguments(int argc, char** argv) {
  Struct s;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::size_t at = argument.find('=');
    if (at == argument.npos) continue;
    s.each([&](const char* name, auto& value) {
      if (argument.substr(0, at) == name) read_field(value, std::string(argument.substr(at + 1)));
    });
  }
  return s;
}

inline std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) >= ' ') {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "\"";
}

template <class Struct>
std::string to_line(Struct s) {
  std::string out;
  s.each([&](const char* name, auto& value) {
    out += (out.empty() ? "{" : ", ") + zoo::quoted(name) + ": ";
    constexpr bool text = std::is_same_v<std::decay_t<decltype(value)>, std::string>;
    out += text ? zoo::quoted(field_text(value)) : field_text(value);
  });
  return out + "}";
}

template <class Struct>
Struct from_line(const std::string& line) {
  Struct s;
  s.each([&](const char* name, auto& value) {
    const std::string key = zoo::quoted(name) + ": ";
    std::size_t at = line.find(key);
    if (at == line.npos) return;
    at += key.size();
    std::string text;
    if (line[at] != '"') {
      text = line.substr(at, line.find_first_of(",}", at) - at);
    } else {
      for (++at; at < line.size() && line[at] != '"'; ++at) {
        const bool escaped = line[at] == '\\';
        if (escaped) ++at;
        text += escaped && line[at] == 'n' ? '\n' : line[at];
      }
    }
    read_field(value, text);
  });
  return s;
}

}  // namespace ebb::zoo
