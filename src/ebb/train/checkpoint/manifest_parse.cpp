// A strict reader: it knows every place that a value may stand at, and builds nothing but the manifest.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "ebb/base/error.hpp"
#include "ebb/io/array/safetensors.hpp"
#include "ebb/train/checkpoint/manifest.hpp"
#include "ebb/train/checkpoint/xxh3.hpp"

namespace ebb::train {
namespace {

constexpr std::string_view kFile = "files[]", kTensor = "files[].tensors[]";

// The keys of each object, but for "extra", which has any; those after the bar may be left out.
struct Keys {
  std::string_view object;
  std::array<std::string_view, 13> names;
};
constexpr std::string_view kBar = "|";
constexpr Keys kKeys[] = {
    {"",
     {"format", "written", "step", "epoch", "position", "metric", "random", "extra", "files",
      "checksum", kBar, "value", "best"}},
    {"random", {"seed", "step", "draw"}},
    {kFile, {"name", "bytes", "xxh3", "tensors"}},
    {kTensor, {"name", "dtype", "shape", "xxh3"}},
};
const Keys* keys_of(std::string_view object) {
  const auto* found = std::find_if(std::begin(kKeys), std::end(kKeys),
                                   [&](const Keys& k) { return k.object == object; });
  return found == std::end(kKeys) ? nullptr : found;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::uint64_t sum_in(const std::string& text) {
  std::uint64_t sum = 0;
  for (const char c : text) {
    const auto digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos || text.size() != 16)
      throw Error(fmt::format("\"{}\" are not the sixteen digits of a checksum", text));
    sum = sum << 4 | digit;
  }
  if (text.empty()) throw Error("a checksum without digits");
  return sum;
}

class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Manifest take() { return std::move(manifest_); }

  bool null() override { wrong("null"); }
  bool boolean(bool) override { wrong("true or false"); }
  bool binary(binary_t&) override { wrong("bytes"); }
  bool number_integer(number_integer_t n) override { return real(static_cast<double>(n)); }
  bool number_float(number_float_t n, const string_t&) override { return real(n); }
  bool number_unsigned(number_unsigned_t n) override;
  bool string(string_t& text) override;

  bool start_object(std::size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw Error(fmt::format("it is no JSON from byte {} on", at));
  }

 private:
  struct Open {
    std::string path;
    bool list = false;
    std::string key = {};    // of the value that comes next
    std::uint32_t seen = 0;  // which of its keys were there
  };
  [[noreturn]] void wrong(std::string_view what) const {
    throw Error(fmt::format("\"{}\" is {}, which was not expected there", path(), what));
  }
  // Where the next value stands: "step", "random.seed", "files[].tensors[].shape[]".
  std::string path() const {
    if (open_.empty()) return "";
    const Open& o = open_.back();
    if (o.list) return o.path + "[]";
    return o.path.empty() ? o.key : o.path + "." + o.key;
  }
  bool real(double value);
  std::int64_t count(std::uint64_t n) const {
    if (n >> 62) wrong("too large");  // and sums of them fit
    return static_cast<std::int64_t>(n);
  }

  Manifest manifest_;
  std::vector<Open> open_;
  bool formatted_ = false;
  std::vector<std::int64_t> shape_;
  ManifestTensor tensor_;
  ManifestFile file_;
};

bool Reader::real(double value) {
  const std::string at = path();
  if (at == "value")
    manifest_.info.value = value;
  else if (at == "best")
    manifest_.info.best = value;
  else
    wrong("a number with a sign or a fraction");
  return true;
}

bool Reader::number_unsigned(number_unsigned_t n) {
  const std::string at = path();
  if (at == "format") {
    if (n != Manifest::kFormat)
      throw Error(fmt::format("it has format {}, and this Ebb reads {}; use the one that wrote it",
                              n, Manifest::kFormat));
    formatted_ = true;
  } else if (at == "written") {
    manifest_.written = count(n);
  } else if (at == "step") {
    manifest_.info.step = count(n);
  } else if (at == "epoch") {
    manifest_.info.epoch = count(n);
  } else if (at == "random.seed") {
    manifest_.seed = n;
  } else if (at == "random.step") {
    manifest_.random_step = n;
  } else if (at == "random.draw") {
    manifest_.draw = n;
  } else if (at == "files[].bytes") {
    file_.bytes = n;
  } else if (at == "files[].tensors[].shape[]") {
    if (shape_.size() == Shape::kMaxRank) wrong("of too many axes");
    shape_.push_back(count(n));
  } else {
    return real(static_cast<double>(n));
  }
  return true;
}

bool Reader::string(string_t& text) {
  const std::string at = path();
  if (!open_.empty() && open_.back().path == "extra")
    manifest_.info.extra[open_.back().key] = std::move(text);
  else if (at == "position")
    manifest_.info.position = std::move(text);
  else if (at == "metric")
    manifest_.info.metric = std::move(text);
  else if (at == "checksum")
    return true;  // compared already
  else if (at == "files[].name")
    file_.name = std::move(text);
  else if (at == "files[].xxh3")
    file_.checksum = sum_in(text);
  else if (at == "files[].tensors[].name")
    tensor_.name = std::move(text);
  else if (at == "files[].tensors[].dtype")
    tensor_.spec.dtype = safetensors_dtype(text);
  else if (at == "files[].tensors[].xxh3")
    tensor_.checksum = sum_in(text);
  else
    wrong("text");
  return true;
}

bool Reader::start_object(std::size_t) {
  std::string at = path();
  if (!open_.empty() && at != "extra" && (at.empty() || !keys_of(at))) wrong("an object");
  if (at == kFile) file_ = {};
  if (at == kTensor) tensor_ = {};
  open_.push_back({std::move(at)});
  return true;
}

bool Reader::key(string_t& name) {
  Open& o = open_.back();
  if (o.path == "extra") {
    if (manifest_.info.extra.contains(name)) throw Error(fmt::format("it has two \"{}\"", name));
  } else {
    const auto& names = keys_of(o.path)->names;
    const auto* found = std::find(names.begin(), names.end(), name);
    if (found == names.end() || name.empty() || name == kBar)
      throw Error(fmt::format("it has a \"{}\", which means nothing there", name.substr(0, 40)));
    const std::uint32_t bit = 1u << (found - names.begin());
    if (o.seen & bit) throw Error(fmt::format("it has two \"{}\"", name));
    if (o.path.empty() && !formatted_ && name != "format")
      throw Error("it does not begin with its format");
    o.seen |= bit;
  }
  o.key = std::move(name);
  return true;
}

bool Reader::end_object() {
  const Open o = std::move(open_.back());
  open_.pop_back();
  if (const Keys* keys = keys_of(o.path))
    for (std::size_t i = 0; i < keys->names.size(); ++i) {
      if (keys->names[i] == kBar || keys->names[i].empty()) break;
      if (!(o.seen & 1u << i))
        throw Error(
            fmt::format("it has no \"{}{}{}\"", o.path, o.path.empty() ? "" : ".", keys->names[i]));
    }
  if (o.path == kTensor) file_.tensors.push_back(std::move(tensor_));
  if (o.path == kFile) {
    if (manifest_.files.size() == 2) throw Error("it lists more than two files");
    manifest_.files.push_back(std::move(file_));
  }
  return true;
}

bool Reader::start_array(std::size_t) {
  std::string at = path();
  if (at != "files" && at != "files[].tensors" && at != "files[].tensors[].shape") wrong("a list");
  shape_.clear();
  open_.push_back({std::move(at), true});
  return true;
}

bool Reader::end_array() {
  if (open_.back().path == "files[].tensors[].shape")
    tensor_.spec.shape = Shape(std::span<const std::int64_t>(shape_));
  open_.pop_back();
  return true;
}

void check_sum(std::string_view text) {
  constexpr std::string_view kBefore = " \"checksum\": \"", kAfter = "\"\n}\n";
  constexpr std::size_t kDigits = 16;
  if (text.size() > Manifest::kMaxBytes)
    throw Error(fmt::format("it has {} bytes, and no manifest has more than {}", text.size(),
                            Manifest::kMaxBytes));
  if (text.size() < kBefore.size() + kDigits + kAfter.size() || !text.ends_with(kAfter))
    throw Error("it does not end with its checksum; it is cut short or damaged");
  const std::string_view body = text.substr(0, text.size() - kDigits - kAfter.size());
  if (!body.ends_with(kBefore))
    throw Error("it does not end with its checksum; it is cut short or damaged");
  const std::string said(text.substr(body.size(), kDigits)), found = digits(xxh3(body));
  if (said != found)
    throw Error(
        fmt::format("its text sums up to {}, where it says {}; it is damaged", found, said));
}

Manifest parsed(std::string_view text) {
  check_sum(text);
  Reader reader;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) throw Error("it is no JSON");
  Manifest m = reader.take();
  if (m.files.size() != 2 || m.files[0].name != kModelName || m.files[1].name != kStateName)
    throw Error(fmt::format("it does not list {} and {}", kModelName, kStateName));
  std::set<std::string_view> names;
  for (const ManifestFile& f : m.files)
    for (const ManifestTensor& t : f.tensors) {
      if (std::any_of(t.name.begin(), t.name.end(), is_control))
        throw Error(fmt::format("tensor {} has a control character in its name", t.name));
      if (!names.insert(t.name).second) throw Error(fmt::format("it has two tensors {}", t.name));
    }
  return m;
}

}  // namespace

Manifest parse_manifest(std::string_view text) {
  try {
    return parsed(text);
  } catch (const Error& e) {  // what it quotes is anybody's text; an error is one line
    std::string line = e.what();
    std::replace_if(line.begin(), line.end(), is_control, '?');
    throw Error(line);
  }
}

}  // namespace ebb::train
