#include "ebb/plan/forecast/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <system_error>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/kernels/checksum.hpp"
#include "ebb/plan/forecast/measure.hpp"

namespace ebb::plan {
namespace {

// "": nowhere. One machine, and several by their names; however many threads each process has.
std::string path_of(std::vector<std::string> hosts) {
  std::string path = cache_path();
  if (path.empty()) return "";
  if (std::getenv("EBB_MACHINE"))
    path += ".network";
  else
    path = path.substr(0, path.find_last_of('/')) + "/network";
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  if (hosts.size() < 2) return path;
  const std::string names = fmt::format("{}", fmt::join(hosts, "\n"));
  return fmt::format("{}-{:016x}", path, kernels::checksum(names.data(), names.size(), 0));
}

struct Unit {
  std::string_view name;
  double size;  // bytes a second; seconds
};
constexpr Unit kSpeeds[] = {{"Tbit/s", 125e9}, {"Gbit/s", 125e6},  {"Mbit/s", 125e3},
                            {"kbit/s", 125},   {"GB/s", 1e9},      {"MB/s", 1e6},
                            {"kB/s", 1e3},     {"GiB/s", 1 << 30}, {"MiB/s", 1 << 20},
                            {"KiB/s", 1 << 10}};
constexpr Unit kTimes[] = {{"ms", 1e-3}, {"us", 1e-6}, {"µs", 1e-6}, {"ns", 1e-9}, {"s", 1}};
constexpr double kLeastSpeed = 1e3, kMostSpeed = 1e14, kMostSeconds = 10;

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// "1.5 Gbit/s" by one of the units; nothing where it is none.
std::optional<double> quantity(std::string_view text, std::span<const Unit> units) {
  text = trimmed(text);
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + digits, number);
  if (digits == 0 || wrong != std::errc() || end != text.data() + digits) return {};
  const std::string_view unit = trimmed(text.substr(digits));
  for (const Unit& u : units)
    if (same_letters(unit, u.name)) return number * u.size;
  return {};
}

}  // namespace

Network parse_network(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    throw Error(
        fmt::format("\"{}\" is no network: {}; write a speed and the time of a message, "
                    "such as 10Gbit/s,50us",
                    text, why));
  };
  const std::size_t comma = text.find(',');
  const std::string_view first = trimmed(text.substr(0, comma));
  const auto speed = quantity(first, kSpeeds);
  Network n;
  if (!speed) refuse(fmt::format("\"{}\" is no speed", first));
  if (*speed < kLeastSpeed || *speed > kMostSpeed)
    refuse(fmt::format("{} is no speed of a network", first));
  n.bytes_per_second = *speed;
  if (comma == text.npos) return n;
  const std::string_view second = trimmed(text.substr(comma + 1));
  const auto seconds = quantity(second, kTimes);
  if (!seconds) refuse(fmt::format("\"{}\" is no time", second));
  if (*seconds > kMostSeconds) refuse(fmt::format("{} is no time of a message", second));
  n.seconds_per_message = *seconds;
  return n;
}

std::string readable(const Network& n) {
  const double bits = 8 * n.bytes_per_second;
  const Unit unit = bits >= 1e9   ? Unit{"Gbit/s", 1e9}
                    : bits >= 1e6 ? Unit{"Mbit/s", 1e6}
                                  : Unit{"kbit/s", 1e3};
  return fmt::format("{:.3g} {}, {:.3g} us", bits / unit.size, unit.name,
                     n.seconds_per_message * 1e6);
}

std::string to_string(const Network& n) {
  return fmt::format(
      "ebb-network 1\nseconds_per_message {:.17g}\nbytes_per_second {:.17g}\nranks {}\nhosts {}\n",
      n.seconds_per_message, n.bytes_per_second, n.ranks, n.hosts);
}

bool parse(const std::string& text, Network& into) {
  Network n;
  const int found = std::sscanf(
      text.c_str(), "ebb-network 1 seconds_per_message %lf bytes_per_second %lf ranks %d hosts %d",
      &n.seconds_per_message, &n.bytes_per_second, &n.ranks, &n.hosts);
  const bool sane = found == 4 && n.seconds_per_message > 0 && n.seconds_per_message < 60 &&
                    n.bytes_per_second > 1 && n.bytes_per_second < 1e15 && n.ranks > 1 &&
                    n.hosts > 0 && n.hosts <= n.ranks;
  if (sane) into = n;
  return sane;
}

bool known_network(const std::vector<std::string>& hosts, Network& into) {
  const std::string path = path_of(hosts);
  try {
    return !path.empty() && file_exists(path) && parse(read_file(path), into);
  } catch (const Error&) {  // as if it had never been measured
    return false;
  }
}

void keep_network(const std::vector<std::string>& hosts, const Network& network) {
  const std::string path = path_of(hosts);
  if (path.empty()) return;
  try {
    make_directories(path.substr(0, path.find_last_of('/')));
    write_file(path, to_string(network));
  } catch (const Error&) {  // it is measured again another time
  }
}

}  // namespace ebb::plan
