"""What the distribution registers; strings only, so listing imports none of its models."""

import manifoldseq as ms


@ms.hookimpl
def manifoldseq_models():
    yield ms.hooks.ModelSpec(
        name="acme.procrustes",
        build="acme_procrustes.model:build",
        example="acme_procrustes.model:example",
        summary="Orthogonal matrix that best maps one point set onto another",
        reference="Schönemann 1966",
    )


@ms.hookimpl
def manifoldseq_kernels():
    yield ms.hooks.KernelSpec(
        name="acme-gain",
        factory="acme_procrustes.kernel:Gain",
        invariances={"state-basis": "acme_procrustes.kernel:rotated"},
        summary="Inner product of the gains C A C'",
    )


@ms.hookimpl
def manifoldseq_commands(cli):
    @cli.command("acme-greet")
    def greet():
        """Say hello."""
        print("hello from acme")
