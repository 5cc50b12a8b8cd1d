// What a file or folder holds, as a value; then as text or JSON.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/sha256.hpp"
#include "ebb/io/archive/npz.hpp"
#include "ebb/io/array/idx.hpp"
#include "ebb/io/array/npy.hpp"
#include "ebb/io/array/safetensors.hpp"
#include "ebb/optim/save.hpp"
#include "ebb/train/build/run_data.hpp"
#include "ebb/train/checkpoint/manifest.hpp"
#include "ebb/train/config/names.hpp"
#include "ebb/train/run/run_directory.hpp"

namespace ebb::app {
namespace {

using Json = nlohmann::ordered_json;

Json tensor(const std::string& name, const Spec& spec) {
  return {{"name", name},
          {"dtype", ebb::name(spec.dtype)},
          {"shape", std::vector<std::int64_t>(spec.shape.begin(), spec.shape.end())},
          {"bytes", spec.bytes()}};
}

Json of_safetensors(const std::string& path, bool digest) {
  File file = File::open(path);
  const Safetensors front = read_safetensors_front(file);
  Json all = {{"kind", "safetensors"}, {"path", path}, {"tensors", Json::array()}};
  for (const StoredTensor& t : front.tensors) all["tensors"].push_back(tensor(t.name, t.spec));
  for (const auto& [key, value] : front.metadata) all["metadata"][key] = value;
  if (optim::verify_saved(path)) all["checksums"] = "verified";
  if (!digest) return all;
  std::vector<const StoredTensor*> sorted;
  for (const StoredTensor& t : front.tensors) sorted.push_back(&t);
  std::sort(sorted.begin(), sorted.end(),
            [](const StoredTensor* a, const StoredTensor* b) { return a->name < b->name; });
  Sha256 sum;
  std::array<std::byte, 1 << 16> piece;
  for (const StoredTensor* t : sorted)
    for (std::uint64_t at = 0; at < t->spec.bytes(); at += piece.size()) {
      const std::span part(piece.data(),
                           std::min<std::uint64_t>(piece.size(), t->spec.bytes() - at));
      file.read_at(front.data + t->offset + at, part);
      sum.add(part);
    }
  all["sha256"] = sum.hex();
  return all;
}

// With what is beside the weights: how its data is read.
Json of_model(const std::string& folder, bool digest) {
  Json all = of_safetensors(folder + "/" + train::kModelName, digest);
  const std::string reading = folder + "/reading.json";
  if (!file_exists(reading)) return all;
  const train::DataFacts facts = train::parse_reading(read_file(reading, 64_MiB), reading).facts;
  all["reads"] = {{"task", train::name_of(facts.task)},
                  {"input", facts.input},
                  {"example", to_string(facts.example)}};
  if (facts.classes > 0) all["reads"]["classes"] = facts.classes;
  if (facts.vocabulary > 0) all["reads"]["vocabulary"] = facts.vocabulary;
  return all;
}

Json of_checkpoint(const std::string& path, bool digest) {
  const train::CheckpointInfo info = train::verify(path);  // every byte is read
  Json all = {{"kind", "checkpoint"},
              {"path", path},
              {"step", info.step},
              {"epoch", info.epoch},
              {"checksums", "verified"}};
  if (info.value) all["figure"] = {{"name", info.metric}, {"value", *info.value}};
  if (!info.position.empty()) all["position"] = info.position;
  all["model"] = of_safetensors(path + "/" + train::kModelName, digest);
  all["state"] = of_safetensors(path + "/" + train::kStateName, false);
  return all;
}

std::string damage_of(const std::string& checkpoint) {  // none: every byte is what was written
  try {
    train::verify(checkpoint);
    return "";
  } catch (const FileError& e) {
    return e.what();
  }
}

Json of_run(const std::string& path, bool digest) {
  const train::Checkpoints checkpoints(train::RunDirectory::open(path).checkpoints());
  Json all = {{"kind", "run"}, {"path", path}, {"checkpoints", Json::array()}};
  const auto best = checkpoints.best(), shown = best ? best : checkpoints.latest();
  if (shown) all[best ? "best" : "last"] = of_checkpoint(shown->path, digest);
  for (const train::Checkpoint& c : checkpoints.list()) {
    Json one = {{"path", c.path}, {"step", c.info.step}, {"epoch", c.info.epoch}};
    if (c.info.value) one["value"] = *c.info.value;
    const bool read = shown && c.path == shown->path;
    const std::string damage = c.damage.empty() && !read ? damage_of(c.path) : c.damage;
    if (!damage.empty()) one["damage"] = damage;
    all["checkpoints"].push_back(std::move(one));
  }
  return all;
}

Json of_plan(const std::string& path) {
  Json plan;
  try {
    plan = Json::parse(read_file(path, 4_MiB));
  } catch (const nlohmann::json::exception& e) {
    throw FileError(fmt::format("{}: this is not JSON: {}", path, e.what()));
  }
  if (!plan.is_object() || !plan.contains("frontier") || !plan.contains("minimum") ||
      !plan["minimum"].is_number())
    throw FileError(
        fmt::format("{}: JSON, and not that of a plan; expected what ebb plan --json gives", path));
  return {{"kind", "plan"}, {"path", path}, {"plan", std::move(plan)}};
}

Json of_npz(const std::string& path) {
  NpzReader reader(path);
  Json all = {{"kind", "npz"}, {"path", path}, {"tensors", Json::array()}};
  for (const std::string& name : reader.names())
    all["tensors"].push_back(tensor(name, reader.spec(name)));
  return all;
}

Json of_one(const char* kind, const std::string& path, const Spec& spec) {
  return {{"kind", kind}, {"path", path}, {"tensors", Json::array({tensor(path, spec)})}};
}

Json inspected(const std::string& path, bool digest) {
  if (train::RunDirectory::is_run(path)) return of_run(path, digest);
  if (file_exists(path + "/" + train::kManifestName)) return of_checkpoint(path, digest);
  if (file_exists(path + "/" + train::kModelName)) return of_model(path, digest);
  if (path.ends_with(".safetensors")) return of_safetensors(path, digest);
  if (path.ends_with(".npz")) return of_npz(path);
  if (path.ends_with(".npy")) return of_one("npy", path, NpyReader(path).spec());
  if (path.ends_with(".json")) return of_plan(path);
  if (path.ends_with(".idx") || path.ends_with("-ubyte") || path.ends_with(".gz"))
    return of_one("idx", path, IdxStream(path).spec());
  if (!file_exists(path)) throw FileError(fmt::format("{}: there is no such file or folder", path));
  throw Error(
      fmt::format("{}: expected a run, a checkpoint, a folder with a model, or a file of "
                  ".safetensors, .npy, .npz, idx or a plan's .json",
                  path));
}

std::string text_of_tensors(const Json& all) {
  std::string text;
  std::uint64_t bytes = 0;
  for (const Json& t : all["tensors"]) {
    const auto size = t["bytes"].get<std::uint64_t>();
    bytes += size;
    std::string shape;
    for (const Json& n : t["shape"]) shape += (shape.empty() ? "" : ", ") + n.dump();
    text +=
        fmt::format("  {:<38} {:<5} {:<18} {:>10}\n", t["name"].get<std::string>(),
                    t["dtype"].get<std::string>(), "(" + shape + ")", to_string(ByteSize{size}));
  }
  text += fmt::format("  {} tensor{}, {}\n", all["tensors"].size(),
                      all["tensors"].size() == 1 ? "" : "s", to_string(ByteSize{bytes}));
  if (all.contains("reads")) {
    const Json& r = all["reads"];
    text += fmt::format("  reads {} for {}", r["example"].get<std::string>(),
                        r["task"].get<std::string>());
    for (const char* count : {"classes", "vocabulary"})
      if (r.contains(count)) text += fmt::format(", {} {}", count, r[count].get<std::int64_t>());
    text += "\n";
  }
  if (all.contains("checksums") && !all.contains("step")) text += "  its checksum is right\n";
  if (all.contains("metadata"))
    for (const auto& [key, value] : all["metadata"].items()) {
      const auto said = value.get<std::string>();
      text += fmt::format("  {}: {}\n", key, said.size() > 60 ? said.substr(0, 57) + "…" : said);
    }
  if (all.contains("sha256"))
    text += fmt::format("  sha-256 {}\n", all["sha256"].get<std::string>());
  return text;
}

std::string text_of_checkpoint(const Json& all) {
  std::string text = fmt::format("{}: step {}, epoch {}, every checksum is right\n",
                                 all["path"].get<std::string>(), all["step"].get<std::int64_t>(),
                                 all["epoch"].get<std::int64_t>());
  if (all.contains("figure"))
    text += fmt::format("{} {:.6g}\n", all["figure"]["name"].get<std::string>(),
                        all["figure"]["value"].get<double>());
  return text + "model:\n" + text_of_tensors(all["model"]) + "state:\n" +
         text_of_tensors(all["state"]);
}

std::string text_of_plan(const Json& all) {
  const Json& p = all["plan"];
  const auto bytes = [&](const char* key) {
    return to_string(ByteSize{p.value(key, std::uint64_t{0})});
  };
  std::string text = fmt::format(
      "{}: a plan\n  budget          {}\n  smallest budget {}\n  process         {}, of it arena "
      "{}\n  time a step     {}\n",
      all["path"].get<std::string>(),
      p.value("budget", std::uint64_t{0}) ? bytes("budget") : "none", bytes("minimum"),
      bytes("process"), bytes("arena"), readable_time(p.value("seconds", 0.0)));
  if (p["frontier"].is_array())
    for (const Json& f : p["frontier"])
      text += fmt::format("    {:>10}  {:>9}  {}\n",
                          to_string(ByteSize{f.value("budget", std::uint64_t{0})}),
                          readable_time(f.value("seconds", 0.0)), f.value("label", ""));
  return text;
}

std::string text_of(const Json& all) {
  const auto kind = all["kind"].get<std::string>();
  if (kind == "plan") return text_of_plan(all);
  if (kind == "checkpoint") return text_of_checkpoint(all);
  if (kind != "run")
    return fmt::format("{}: {}\n", all["path"].get<std::string>(), kind) + text_of_tensors(all);
  std::string text = fmt::format("{}: a run with {} checkpoints\n", all["path"].get<std::string>(),
                                 all["checkpoints"].size());
  for (const Json& c : all["checkpoints"])
    text += fmt::format("  step {:>8}  {}{}\n", c["step"].get<std::int64_t>(),
                        c["path"].get<std::string>(),
                        c.contains("damage") ? "  DAMAGED: " + c["damage"].get<std::string>()
                                             : "  every checksum is right");
  for (const char* which : {"best", "last"})
    if (all.contains(which)) text += fmt::format("{}: {}", which, text_of_checkpoint(all[which]));
  return text;
}

struct Inspect {
  std::string path;
  bool json = false, digest = false;
  void run() const {
    const Json all = inspected(path, digest);
    print(json ? all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n" : text_of(all));
    for (const Json& c : all.value("checkpoints", Json::array()))
      if (c.contains("damage")) throw FileError(c["damage"].get<std::string>());
  }
};

}  // namespace

void add_inspect(CLI::App& app) {
  auto inspect = std::make_shared<Inspect>();
  CLI::App* c =
      app.add_subcommand("inspect",
                         "what a run, a checkpoint, a plan or a file of tensors holds\n\n"
                         "Names, types, shapes and bytes. Every byte of a checkpoint, and "
                         "of all of a run's, is read, and its checksums are verified.");
  c->group(group::kMore);
  c->footer(
      "ebb inspect runs/train\n"
      "ebb inspect runs/train/model --digest\n"
      "ebb inspect model.safetensors --json\n"
      "ebb inspect runs/train/plan.json\n");
  c->add_option("path", inspect->path,
                "a run, a checkpoint, a model's folder, or a file: safetensors, npy, npz, idx, a "
                "plan's json")
      ->required()
      ->type_name(value::kPath);
  c->add_flag("--digest", inspect->digest,
              "the SHA-256 of a model's tensors, in the order of names");
  add_json(*c, inspect->json);
  c->callback([inspect] { inspect->run(); });
}

}  // namespace ebb::app
