#include "apps/ebb/console.hpp"

#include <fmt/core.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "ebb/dist/errors.hpp"

namespace ebb::app {
namespace {

bool is_quiet = false;

// Characters, not bytes, of UTF-8.
std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

bool written(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

// Options of a program (".spill = false") as the keys of a config that they are here.
std::string in_keys(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
      {".spill_directory", "memory.spill_directory"},
      {".spill", "memory.spill"},
      {".micro_batch", "memory.micro_batch"},
      {".independent_micro_batches", "memory.independent_micro_batches"},
      {".allow", "memory.allow"},
      {".approximate", "memory.activations"}};
  const auto in_a_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  for (const auto& [option, key] : kKeys)
    for (std::size_t at = text.find(option); at != std::string::npos;
         at = text.find(option, at + key.size())) {
      const std::size_t end = at + option.size();
      const bool begins = at > 0 && (text[at - 1] == ' ' || text[at - 1] == '(');
      if (begins && (end == text.size() || !in_a_word(text[end])))
        text.replace(at, option.size(), key);
    }
  constexpr std::string_view kCompile = "compile: ";
  return text.starts_with(kCompile) ? text.substr(kCompile.size()) : text;
}

}  // namespace

void print(std::string_view text) {
  if (written(text)) return;
  if (errno == EPIPE) throw Exit{0};
  throw Exit{complain(fmt::format("cannot write to standard output: {}", std::strerror(errno)), 1)};
}

void say(std::string_view text) {
  if (!is_quiet && !written(text)) std::clearerr(stdout);
}

void set_quiet(bool quiet) { is_quiet = quiet; }
bool quiet() { return is_quiet; }

void warn(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) complain("note: " + note, 0);
}

int complain(std::string_view line, int code) {
  if (dist::told_by_another()) return code;
  const std::string all = fmt::format("ebb: {}{}\n", dist::told_as(), in_keys(std::string(line)));
  std::fwrite(all.data(), 1, all.size(), stderr);
  return code;
}

std::string readable_time(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 100) return fmt::format("{:.3g} s", seconds);
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{}min {:02}s", whole / 60, whole % 60);
  if (whole < 48 * 3600) return fmt::format("{}h {:02}min", whole / 3600, whole / 60 % 60);
  return fmt::format("{:.1f} days", seconds / 86400);
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string all;
  std::size_t at = indent;
  bool first = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t wide = columns(word);
    if (!first && at + 1 + wide > width) {
      all += '\n' + std::string(indent, ' ');
      at = indent;
    } else if (!first) {
      all += ' ';
      ++at;
    }
    all += word;
    at += wide;
    first = false;
  }
  return all;
}

}  // namespace ebb::app
