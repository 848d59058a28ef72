"""A program twice: every region and plan once more, in other names, with tensors of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tinyir.ir import plan, region
from tinyir.ir.body import Body, Read, Ref, rebuild
from tinyir.ir.plan.fields import renamed

AGAIN = ".again"


def doubled(module: plan.Module) -> plan.Module:
    """The module with a second copy of it behind the first."""
    copy = again(module)
    one, other = module.program, copy.program
    model = replace(
        one.model,
        inputs=(*one.model.inputs, *other.model.inputs),
        outputs=(*one.model.outputs, *other.model.outputs),
    )
    program = replace(
        one.program,
        buffers=(*one.program.buffers, *other.program.buffers),
        regions=(*one.program.regions, *other.program.regions),
    )
    return plan.Module(region.Module(model, program), (*module.plans, *copy.plans))


def again(module: plan.Module) -> plan.Module:
    """The module in other names: each has `.again` behind it, but for symbols and axes."""
    program, model = module.program.program, module.program.model
    values = {let.name: let.name + AGAIN for one in program.regions for let in one.lets}
    tensors = {t.name: t.name + AGAIN for t in (*model.inputs, *model.outputs, *program.buffers)}
    return plan.Module(
        region.Module(
            replace(model, inputs=tuple(map(_tensor, model.inputs)), outputs=tuple(map(_tensor, model.outputs))),
            replace(
                program, buffers=tuple(map(_tensor, program.buffers)), regions=tuple(map(_region, program.regions))
            ),
        ),
        tuple(renamed(p, tuple(name + AGAIN for name in p.regions), tensors, values) for p in module.plans),
    )


def _tensor(tensor: Any) -> Any:
    attrs = tuple((k, v + AGAIN if k == "alias" else v) for k, v in tensor.attrs)
    return replace(tensor, name=tensor.name + AGAIN, attrs=attrs)


def _region(one: region.Region) -> region.Region:
    return replace(
        one,
        name=one.name + AGAIN,
        inputs=tuple(map(_tensor, one.inputs)),
        outputs=tuple(map(_tensor, one.outputs)),
        lets=tuple(replace(let, name=let.name + AGAIN, expr=_body(let.expr)) for let in one.lets),
        yields=tuple(replace(y, output=y.output + AGAIN, expr=_body(y.expr)) for y in one.yields),
        must_fuse=tuple(name + AGAIN for name in one.must_fuse),
    )


def _body(body: Body) -> Body:
    if isinstance(body, Read):
        return replace(body, tensor=body.tensor + AGAIN)
    if isinstance(body, Ref):
        return replace(body, name=body.name + AGAIN)
    return rebuild(body, _body)
