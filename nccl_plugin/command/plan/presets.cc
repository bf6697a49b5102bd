#include "nccl_plugin/command/plan/presets.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace ringpress::nccl_plugin::command {
namespace {

using Parameters = std::vector<Parameter>;

/// What a token or an image costs with each value: a product and a sum.
constexpr double kProduct = 2;

class Layers {
 public:
  /// Of `places` outputs, such as pixels, that the weights are used for.
  void weights(const std::string& name, double count, double places = 1) {
    all_.push_back({name, count, kProduct * count * places});
  }
  /// Looked up, not multiplied.
  void table(const std::string& name, double count) { all_.push_back({name, count, 0}); }
  void linear(const std::string& name, double inputs, double outputs) {
    weights(name + ".weight", inputs * outputs);
    weights(name + ".bias", outputs);
  }
  /// A layer's or a batch's norm.
  void norm(const std::string& name, double channels, double places = 1) {
    weights(name + ".weight", channels, places);
    weights(name + ".bias", channels, places);
  }
  /// Work whose weights are another tensor's, done before the gradient of the last one is there.
  void work(double operations) { all_.back().operations += operations; }

  Parameters take() { return std::move(all_); }

 private:
  Parameters all_;
};

std::string numbered(const char* begin, int number) {
  return begin + std::to_string(number) + ".";
}

struct TransformerShape {
  double hidden;
  int layers;
};

/// Radford et al., 2019; its output layer has the weights of the embedding.
Parameters gpt2(const TransformerShape& shape) {
  constexpr double kVocabulary = 50257, kPositions = 1024;
  const double h = shape.hidden;
  Layers model;
  model.table("wte.weight", kVocabulary * h);
  model.table("wpe.weight", kPositions * h);
  for (int i = 0; i < shape.layers; ++i) {
    const std::string layer = numbered("h.", i);
    model.norm(layer + "ln_1", h);
    model.linear(layer + "attn.c_attn", h, 3 * h);
    model.linear(layer + "attn.c_proj", h, h);
    model.norm(layer + "ln_2", h);
    model.linear(layer + "mlp.c_fc", h, 4 * h);
    model.linear(layer + "mlp.c_proj", 4 * h, h);
  }
  model.norm("ln_f", h);
  model.work(kProduct * kVocabulary * h);
  return model.take();
}

/// Devlin et al., 2019, without heads for tasks: PyTorch's BertModel.
Parameters bert(const TransformerShape& shape) {
  constexpr double kVocabulary = 30522, kPositions = 512, kTypes = 2;
  const double h = shape.hidden;
  Layers model;
  model.table("embeddings.word_embeddings.weight", kVocabulary * h);
  model.table("embeddings.position_embeddings.weight", kPositions * h);
  model.table("embeddings.token_type_embeddings.weight", kTypes * h);
  model.norm("embeddings.LayerNorm", h);
  for (int i = 0; i < shape.layers; ++i) {
    const std::string layer = numbered("encoder.layer.", i);
    for (const char* part : {"query", "key", "value"}) {
      model.linear(layer + "attention.self." + part, h, h);
    }
    model.linear(layer + "attention.output.dense", h, h);
    model.norm(layer + "attention.output.LayerNorm", h);
    model.linear(layer + "intermediate.dense", h, 4 * h);
    model.linear(layer + "output.dense", 4 * h, h);
    model.norm(layer + "output.LayerNorm", h);
  }
  model.linear("pooler.dense", h, h);
  return model.take();
}

struct LlamaShape {
  double hidden;
  int layers;
  double intermediate;
  double keys;  // Of all heads: less than `hidden` where heads share them.
  double vocabulary;
};

/// Touvron et al., 2023.
Parameters llama(const LlamaShape& shape) {
  const double h = shape.hidden;
  Layers model;
  model.table("embed_tokens.weight", shape.vocabulary * h);
  for (int i = 0; i < shape.layers; ++i) {
    const std::string layer = numbered("layers.", i);
    model.weights(layer + "self_attn.q_proj.weight", h * h);
    model.weights(layer + "self_attn.k_proj.weight", h * shape.keys);
    model.weights(layer + "self_attn.v_proj.weight", h * shape.keys);
    model.weights(layer + "self_attn.o_proj.weight", h * h);
    for (const char* part : {"gate", "up", "down"}) {
      model.weights(layer + "mlp." + part + "_proj.weight", h * shape.intermediate);
    }
    model.weights(layer + "input_layernorm.weight", h);
    model.weights(layer + "post_attention_layernorm.weight", h);
  }
  model.weights("norm.weight", h);
  model.weights("lm_head.weight", shape.vocabulary * h);
  return model.take();
}

/// A convolution without a bias and its norm, for an image of `side` x `side` results.
struct Convolution {
  double inputs;
  double outputs;
  double kernel;
  double side;
};

void add_convolution(const std::string& name, const std::string& norm, const Convolution& layer,
                     Layers* model) {
  const double places = layer.side * layer.side;
  model->weights(name + ".weight", layer.inputs * layer.outputs * layer.kernel * layer.kernel,
                 places);
  model->norm(norm, layer.outputs, places);
}

/// He et al., 2016, of bottlenecks; strides as PyTorch has them.
Parameters resnet(const std::vector<int>& blocks) {
  constexpr double kWider = 4, kClasses = 1000;
  Layers model;
  add_convolution("conv1", "bn1", {3, 64, 7, 112}, &model);
  double inputs = 64, side = 56, planes = 64;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    for (int i = 0; i < blocks[stage]; ++i) {
      const std::string block =
          numbered("layer", static_cast<int>(stage) + 1) + std::to_string(i) + ".";
      const double before = side;
      if (i == 0 && stage > 0) side /= 2;
      add_convolution(block + "conv1", block + "bn1", {inputs, planes, 1, before}, &model);
      add_convolution(block + "conv2", block + "bn2", {planes, planes, 3, side}, &model);
      add_convolution(block + "conv3", block + "bn3", {planes, kWider * planes, 1, side}, &model);
      if (i == 0) {
        add_convolution(block + "downsample.0", block + "downsample.1",
                        {inputs, kWider * planes, 1, side}, &model);
      }
      inputs = kWider * planes;
    }
    planes *= 2;
  }
  model.linear("fc", inputs, kClasses);
  return model.take();
}

/// Simonyan and Zisserman, 2015: configuration D.
Parameters vgg16() {
  Layers model;
  double inputs = 3, side = 224;
  int number = 0;
  for (const auto& [outputs, count] :
       {std::pair(64.0, 2), {128.0, 2}, {256.0, 3}, {512.0, 3}, {512.0, 3}}) {
    for (int i = 0; i < count; ++i) {
      const std::string name = "features." + std::to_string(number);
      model.weights(name + ".weight", 9 * inputs * outputs, side * side);
      model.weights(name + ".bias", outputs, side * side);
      inputs = outputs;
      number += 2;  // An activation follows.
    }
    ++number;  // As does a pooling.
    side /= 2;
  }
  model.linear("classifier.0", inputs * side * side, 4096);
  model.linear("classifier.3", 4096, 4096);
  model.linear("classifier.6", 4096, 1000);
  return model.take();
}

struct Preset {
  const char* name;
  double published;
  Parameters (*make)();
};

constexpr Preset kPresets[] = {
    {"gpt2", 124439808,
     [] {
       return gpt2({768, 12});
     }},
    {"gpt2-medium", 354823168,
     [] {
       return gpt2({1024, 24});
     }},
    {"gpt2-large", 774030080,
     [] {
       return gpt2({1280, 36});
     }},
    {"gpt2-xl", 1557611200,
     [] {
       return gpt2({1600, 48});
     }},
    {"bert-base", 109482240,
     [] {
       return bert({768, 12});
     }},
    {"bert-large", 335141888,
     [] {
       return bert({1024, 24});
     }},
    {"resnet50", 25557032,
     [] {
       return resnet({3, 4, 6, 3});
     }},
    {"resnet101", 44549160,
     [] {
       return resnet({3, 4, 23, 3});
     }},
    {"resnet152", 60192808,
     [] {
       return resnet({3, 8, 36, 3});
     }},
    {"vgg16", 138357544, vgg16},
    {"llama-7b", 6738415616,
     [] {
       return llama({4096, 32, 11008, 4096, 32000});
     }},
    {"llama-13b", 13015864320,
     [] {
       return llama({5120, 40, 13824, 5120, 32000});
     }},
    {"llama2-70b", 68976648192,
     [] {
       return llama({8192, 80, 28672, 1024, 32000});
     }},
    {"llama3-8b", 8030261248,
     [] {
       return llama({4096, 32, 14336, 1024, 128256});
     }},
};

const Preset* find_preset(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kPresets), std::end(kPresets),
                                         [&](const Preset& preset) { return name == preset.name; });
  return found == std::end(kPresets) ? nullptr : found;
}

}  // namespace

std::optional<std::vector<Parameter>> preset_parameters(std::string_view name) {
  const Preset* const preset = find_preset(name);
  if (preset == nullptr) return std::nullopt;
  return preset->make();
}

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

double published_parameters(std::string_view name) {
  const Preset* const preset = find_preset(name);
  return preset == nullptr ? 0 : preset->published;
}

}  // namespace ringpress::nccl_plugin::command
