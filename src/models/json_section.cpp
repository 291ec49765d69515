#include "models/json_section.h"

#include <array>

namespace sam3 {

namespace {

struct Named {
    const char* name;
    Activation activation;
};
// The first name of an activation is the one that is written.
constexpr std::array kActivations{
    Named{"gelu", Activation::gelu},          Named{"relu", Activation::relu},
    Named{"gelu_new", Activation::gelu_tanh}, Named{"gelu_pytorch_tanh", Activation::gelu_tanh},
    Named{"silu", Activation::silu},
};

}  // namespace

Activation activation_by_name(const std::string& name, const std::string& where) {
    for (const Named& known : kActivations)
        if (name == known.name) return known.activation;
    fail(where, " is '", name, "'; known are gelu, relu, gelu_new and silu");
}

const char* name_of(Activation activation) {
    for (const Named& known : kActivations)
        if (activation == known.activation) return known.name;
    fail("this activation has no name in configurations");
}

}  // namespace sam3
